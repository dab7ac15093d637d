//! The parts of a form (`multipart/form-data`, RFC 7578) that matter, found while it passes.
//!
//! A form carries a file, so it is not held back to be parsed: the scanner is fed each piece as it comes, keeps the head
//! of the part at hand and the values of `model` and `stream`, all of bounded size, and says where in the body the model
//! stands, so that exactly those bytes can be replaced. It is strict where readers differ, since the gateway and the
//! engine behind it must see the same model: what one reader takes for a boundary, a name or a second `model` and another
//! does not, is refused. (The crates for such forms hand out the parts' contents and not their places.)

use std::ops::Range;

mod disposition;

pub use disposition::boundary;

use disposition::part_name;
use memchr::memmem::Finder;

/// Longest head of a part, bytes.
const HEAD_MAX: usize = 8 * 1024;
/// Longest name of a model, bytes.
const MODEL_MAX: usize = 1024;
/// Longest value of `stream`, bytes.
const STREAM_MAX: usize = 16;
/// Most parts.
const PARTS_MAX: usize = 1000;

/// Why a form is refused. Quotes nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormError {
    /// The content type names no boundary, or none that is allowed.
    NoBoundary,
    /// The content type names two boundaries.
    TwoBoundaries,
    /// Something else than a line's end follows a boundary.
    BrokenBoundary,
    /// The head of a part cannot be read: what is wrong with it.
    BadHead(&'static str),
    /// There are more parts than a form needs.
    TooManyParts,
    /// Two parts are named `model`.
    DuplicateModel,
    /// The value of `model` cannot be taken: what is wrong with it.
    BadModel(&'static str),
    /// The body ended before its closing boundary.
    Unclosed,
}

impl std::fmt::Display for FormError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoBoundary => f.write_str(
                "the content-type names no boundary: send `multipart/form-data; boundary=…`, as form libraries do by themselves",
            ),
            Self::TwoBoundaries => f.write_str("the content-type names the boundary more than once: send one"),
            Self::BrokenBoundary => {
                f.write_str("the form is broken: a boundary is followed by something else than the end of its line")
            }
            Self::BadHead(what) => write!(f, "the form is broken: the head of a part {what}"),
            Self::TooManyParts => write!(f, "the form has more than {PARTS_MAX} parts"),
            Self::DuplicateModel => f.write_str("the form has two parts named \"model\": send one"),
            Self::BadModel(what) => write!(f, "the part \"model\" {what}"),
            Self::Unclosed => f.write_str("the form is cut: its closing boundary is missing"),
        }
    }
}

impl std::error::Error for FormError {}

/// The model that a form names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormModel {
    /// Its name.
    pub name: String,
    /// Where it stands in the body.
    pub place: Range<usize>,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The content of a part, or what stands before the first boundary. So many bytes of a boundary have been seen.
    Content { matched: usize },
    /// What follows a boundary on its line.
    Line(Line),
    /// A part's head; its bytes are gathered.
    Head,
    /// What stands after the closing boundary.
    Over,
}

/// The rest of a boundary's line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Begun,
    /// One dash: the closing boundary has two.
    Dash,
    /// White space that mailers may add.
    Padding,
    Return,
}

/// Which part the content belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// None, or one that does not matter.
    Other,
    Model,
    Stream,
}

/// Scans one form, fed in pieces cut anywhere.
#[derive(Debug)]
pub struct FormScanner {
    /// CRLF, two dashes and the boundary. The form is read as if a CRLF stood before it.
    delimiter: Finder<'static>,
    state: State,
    /// Bytes taken so far.
    at: usize,
    part: Part,
    parts: usize,
    /// The head of the part at hand, or its value.
    kept: Vec<u8>,
    /// Where the content of the part at hand begins.
    begins: usize,
    /// Bytes of `matched` that are not there: the CRLF before the first byte of the form, or of a part's content.
    unreal: usize,
    /// Where the first boundary begins, its dashes included.
    first: Option<usize>,
    model: Option<FormModel>,
    stream: bool,
}

impl FormScanner {
    /// A scanner for forms with this boundary; see [`boundary`].
    #[must_use]
    pub fn new(boundary: &str) -> Self {
        let delimiter = [b"\r\n--", boundary.as_bytes()].concat();
        Self {
            delimiter: Finder::new(&delimiter).into_owned(),
            state: State::Content { matched: 2 },
            at: 0,
            part: Part::Other,
            parts: 0,
            kept: Vec::new(),
            begins: 0,
            unreal: 2,
            first: None,
            model: None,
            stream: false,
        }
    }

    /// The model, once its part has ended.
    #[must_use]
    pub fn model(&self) -> Option<&FormModel> {
        self.model.as_ref()
    }

    /// Whether the last part `stream` is true.
    #[must_use]
    pub fn stream(&self) -> bool {
        self.stream
    }

    /// Where a part can be put in before all others, once the first boundary has been seen, and the bytes of one that
    /// names `model`.
    #[must_use]
    pub fn model_part(&self, model: &str) -> Option<(usize, String)> {
        let delimiter = std::str::from_utf8(self.delimiter.needle()).ok()?;
        let line = delimiter.trim_start();
        let part = format!("{line}\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n{model}\r\n");
        self.first.map(|first| (first, part))
    }

    /// Takes the next piece.
    ///
    /// # Errors
    /// What is wrong with the form. Nothing more may be fed then.
    pub fn feed(&mut self, mut piece: &[u8]) -> Result<(), FormError> {
        while !piece.is_empty() {
            let used = match self.state {
                State::Content { matched } => self.content(piece, matched)?,
                State::Line(line) => self.line(piece[0], line)?,
                State::Head => self.head(piece)?,
                State::Over => piece.len(),
            };
            self.at += used;
            piece = &piece[used..];
        }
        Ok(())
    }

    /// The body has ended.
    ///
    /// # Errors
    /// [`FormError::Unclosed`].
    pub fn finish(&self) -> Result<(), FormError> {
        match self.state {
            State::Over => Ok(()),
            _ => Err(FormError::Unclosed),
        }
    }

    /// Looks for the boundary; gives how many bytes it has used. A return stands only at the start of a delimiter, so
    /// nothing that was matched in vain can hold the start of another one.
    fn content(&mut self, piece: &[u8], matched: usize) -> Result<usize, FormError> {
        let needle = self.delimiter.needle();
        if matched > 0 {
            let rest = &needle[matched..];
            let same = rest.iter().zip(piece).take_while(|(a, b)| a == b).count();
            if same == rest.len() {
                let real = needle.len() - self.unreal;
                self.boundary(self.at + same - real)?;
                return Ok(same);
            }
            if same == piece.len() {
                self.state = State::Content {
                    matched: matched + same,
                };
                return Ok(same);
            }
            // No boundary after all: what looked like one belongs to the content.
            let held = needle[self.unreal..matched].to_vec();
            self.unreal = 0;
            self.keep(&held)?;
            self.keep(&piece[..same])?;
            self.state = State::Content { matched: 0 };
            return Ok(same);
        }
        if let Some(found) = self.delimiter.find(piece) {
            self.keep(&piece[..found])?;
            self.boundary(self.at + found)?;
            return Ok(found + self.delimiter.needle().len());
        }
        let tail = piece.len().saturating_sub(needle.len() - 1);
        let start = memchr::memrchr(b'\r', &piece[tail..])
            .map(|start| tail + start)
            .filter(|start| needle.starts_with(&piece[*start..]));
        let content = start.unwrap_or(piece.len());
        self.keep(&piece[..content])?;
        self.state = State::Content {
            matched: piece.len() - content,
        };
        Ok(piece.len())
    }

    /// Bytes of the part's content.
    fn keep(&mut self, bytes: &[u8]) -> Result<(), FormError> {
        let most = match self.part {
            Part::Other => return Ok(()),
            Part::Model => MODEL_MAX,
            Part::Stream => STREAM_MAX,
        };
        if self.kept.len() + bytes.len() <= most {
            self.kept.extend_from_slice(bytes);
            return Ok(());
        }
        match self.part {
            Part::Model => Err(FormError::BadModel("is too long for the name of a model")),
            _ => {
                // Whatever it is, it is not `true`, and what an earlier part said no longer counts.
                self.stream = false;
                self.part = Part::Other;
                Ok(())
            }
        }
    }

    /// A boundary has been found, whose CRLF begins at `ends`: the part at hand ends there.
    fn boundary(&mut self, ends: usize) -> Result<(), FormError> {
        let unreal = std::mem::take(&mut self.unreal);
        if unreal > 0 && self.parts > 0 {
            // For some readers the part is empty, for others this is its content.
            return Err(FormError::BrokenBoundary);
        }
        self.state = State::Line(Line::Begun);
        let value = std::mem::take(&mut self.kept);
        match std::mem::replace(&mut self.part, Part::Other) {
            Part::Other => {}
            Part::Stream => self.stream = value.trim_ascii().eq_ignore_ascii_case(b"true"),
            Part::Model => {
                let name = String::from_utf8(value).map_err(|_| FormError::BadModel("is not UTF-8"))?;
                if name.trim().is_empty() {
                    return Err(FormError::BadModel("is empty: write the name of a model into it"));
                }
                let place = self.begins..ends;
                self.model = Some(FormModel { name, place });
            }
        }
        self.first.get_or_insert(ends + 2 - unreal);
        Ok(())
    }

    /// One byte of what follows a boundary on its line.
    fn line(&mut self, byte: u8, line: Line) -> Result<usize, FormError> {
        self.state = match (line, byte) {
            (Line::Begun, b'-') => State::Line(Line::Dash),
            (Line::Dash, b'-') => State::Over,
            (Line::Begun | Line::Padding, b' ' | b'\t') => State::Line(Line::Padding),
            (Line::Begun | Line::Padding, b'\r') => State::Line(Line::Return),
            (Line::Return, b'\n') => {
                self.parts += 1;
                if self.parts > PARTS_MAX {
                    return Err(FormError::TooManyParts);
                }
                State::Head
            }
            _ => return Err(FormError::BrokenBoundary),
        };
        Ok(1)
    }

    /// Gathers the head of a part up to the empty line that ends it.
    fn head(&mut self, piece: &[u8]) -> Result<usize, FormError> {
        let held = self.kept.len();
        let take = piece.len().min(HEAD_MAX + 1 - held);
        self.kept.extend_from_slice(&piece[..take]);
        let end = if self.kept.starts_with(b"\r\n") {
            Some(2)
        } else {
            let from = held.saturating_sub(3);
            memchr::memmem::find(&self.kept[from..], b"\r\n\r\n").map(|end| from + end + 4)
        };
        let Some(end) = end else {
            return if self.kept.len() > HEAD_MAX {
                Err(FormError::BadHead("is too large"))
            } else {
                Ok(take)
            };
        };
        let head = std::mem::take(&mut self.kept);
        let used = end - held;
        self.begins = self.at + used;
        self.part = match part_name(&head[..end])? {
            disposition::Name::Model if self.model.is_some() => return Err(FormError::DuplicateModel),
            disposition::Name::Model => Part::Model,
            disposition::Name::Stream => Part::Stream,
            disposition::Name::Other => Part::Other,
        };
        self.unreal = 2;
        self.state = State::Content { matched: 2 };
        Ok(used)
    }
}

#[cfg(test)]
mod tests;
