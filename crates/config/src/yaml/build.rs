//! Builds the tree from the parser's events.

use super::{Entry, Mark, Node, NodeId, Step, Tree, Value, shorten};
use crate::problems::Problem;
use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};
use std::borrow::Cow;
use std::collections::HashMap;

/// Largest file, bytes.
pub(crate) const BYTES_MAX: usize = 4 << 20;
/// Most nodes in a file, copies by aliases included.
const NODES_MAX: usize = 200_000;
/// Deepest nesting; the config itself needs 7.
const DEPTH_MAX: usize = 32;

/// Parses `text`; `file` is the name that problems carry.
///
/// Gives the tree together with problems that leave a tree to read on in (duplicate keys), or only problems.
pub(crate) fn parse(file: &str, text: &str) -> (Option<Tree>, Vec<Problem>) {
    let shielded = shield(text);
    let mut builder = Builder::new(file, &shielded);
    builder.shielded = matches!(shielded, Cow::Owned(_));
    let done = if text.len() > BYTES_MAX {
        let mark = Mark { line: 1, column: 1 };
        Err(builder.fault(
            mark,
            "the file is larger than 4 MiB",
            "split the fleet over several gateways",
        ))
    } else {
        builder.document()
    };
    match done {
        Ok(()) => (Some(Tree { nodes: builder.nodes }), builder.problems),
        Err(Stopped) => (None, builder.problems),
    }
}

/// Stand-ins for the braces of variables while YAML is parsed; noncharacters of Unicode, which no text holds.
const OPEN: char = '\u{fdd0}';
const CLOSE: char = '\u{fdd1}';

/// Hides the braces of `${NAME}` from the parser, so that a variable needs no quotes inside `{…}` and `[…]` of YAML.
/// Character for character, so places stay what they are; [`Builder::unshield`] brings them back in every scalar.
fn shield(text: &str) -> Cow<'_, str> {
    if !text.contains("${") || text.contains([OPEN, CLOSE]) {
        return Cow::Borrowed(text);
    }
    let mut shielded = String::with_capacity(text.len() + 64);
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, variable) = rest.split_at(start);
        shielded.push_str(before);
        let inside = &variable[2..];
        let end = inside
            .find(['}', '{', '\n'])
            .filter(|end| inside[*end..].starts_with('}'));
        shielded.push('$');
        match end {
            Some(end) => {
                shielded.push(OPEN);
                shielded.push_str(&inside[..end]);
                shielded.push(CLOSE);
                rest = &inside[end + 1..];
            }
            None => rest = &variable[1..],
        }
    }
    shielded.push_str(rest);
    Cow::Owned(shielded)
}

/// The file cannot be read on; the reason is among the problems.
struct Stopped;

struct Builder<'a> {
    file: &'a str,
    /// Whether braces of variables are hidden, see [`shield`].
    shielded: bool,
    parser: Parser<'a, StrInput<'a>>,
    nodes: Vec<Node>,
    /// Finished nodes by the parser's number of their anchor.
    anchors: HashMap<usize, NodeId>,
    problems: Vec<Problem>,
}

impl<'a> Builder<'a> {
    fn new(file: &'a str, text: &'a str) -> Self {
        let mut options = granit_parser::Options::default();
        options.emit_comments = false;
        options.flow_nesting_limit = DEPTH_MAX;
        options.block_nesting_limit = DEPTH_MAX;
        Self {
            file,
            shielded: false,
            parser: Parser::new_from_str_with_options(text, options),
            nodes: Vec::new(),
            anchors: HashMap::new(),
            problems: Vec::new(),
        }
    }

    fn fault(&mut self, mark: Mark, message: impl Into<String>, hint: &str) -> Stopped {
        self.report((mark, String::new()), message.into(), hint);
        Stopped
    }

    fn report(&mut self, (mark, path): (Mark, String), message: String, hint: &str) {
        self.problems.push(Problem {
            file: self.file.to_owned(),
            line: mark.line,
            column: mark.column,
            path,
            message,
            hint: (!hint.is_empty()).then(|| hint.to_owned()),
        });
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), Stopped> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(self.syntax(&error)),
            None => Err(self.fault(Mark { line: 1, column: 1 }, "the file ends early", "")),
        }
    }

    fn unshield(&self, text: Cow<'_, str>) -> String {
        if self.shielded {
            text.replace(OPEN, "{").replace(CLOSE, "}")
        } else {
            text.into_owned()
        }
    }

    fn syntax(&mut self, error: &ScanError) -> Stopped {
        let marker = error.marker();
        let mark = Mark {
            line: marker.line().max(1),
            column: marker.col() + 1,
        };
        let hint = "indentation is by spaces; a value that holds `: `, ` #` or starts with one of `[]{}&*!|>%@` needs quotes";
        self.fault(mark, format!("not valid YAML: {}", error.info()), hint)
    }

    fn document(&mut self) -> Result<(), Stopped> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(..) => {}
                Event::StreamEnd => {
                    let hint =
                        "the smallest config is a list `pools` with one pool: a name and its endpoints";
                    return Err(self.fault(Mark { line: 1, column: 1 }, "the file is empty", hint));
                }
                event => {
                    self.value(None, event, &span)?;
                    break;
                }
            }
        }
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(()),
                (Event::DocumentEnd, _) => {}
                (_, span) => {
                    let hint = "remove the line `---` and what follows it";
                    return Err(self.fault(Mark::from(&span), "a second document begins here", hint));
                }
            }
        }
    }

    fn add(&mut self, mark: Mark, parent: Option<(NodeId, Step)>, value: Value) -> Result<NodeId, Stopped> {
        if self.nodes.len() >= NODES_MAX {
            let message = format!("the file has more than {NODES_MAX} values, those of aliases included");
            return Err(self.fault(mark, message, "use fewer aliases"));
        }
        self.nodes.push(Node { mark, parent, value });
        Ok(NodeId(self.nodes.len() - 1))
    }

    /// Reads the node that begins with `event`. Recursion is bounded by the parser's nesting limits.
    fn value(
        &mut self,
        parent: Option<(NodeId, Step)>,
        event: Event<'a>,
        span: &Span,
    ) -> Result<NodeId, Stopped> {
        let mark = Mark::from(span);
        let (id, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let tagged = tag
                    .as_deref()
                    .is_some_and(|tag| tag.is_yaml_core_schema_tag("str"));
                if tag.is_some() && !tagged {
                    return Err(self.tagged(mark));
                }
                let plain = style == ScalarStyle::Plain && !tagged;
                (
                    self.add(
                        mark,
                        parent,
                        Value::Scalar {
                            text: self.unshield(text),
                            plain,
                        },
                    )?,
                    anchor,
                )
            }
            Event::SequenceStart(_, anchor, tag) => {
                if tag.is_some() {
                    return Err(self.tagged(mark));
                }
                let id = self.add(mark, parent, Value::List(Vec::new()))?;
                self.list(id)?;
                (id, anchor)
            }
            Event::MappingStart(_, anchor, tag) => {
                if tag.is_some() {
                    return Err(self.tagged(mark));
                }
                let id = self.add(mark, parent, Value::Map(Vec::new()))?;
                self.map(id)?;
                (id, anchor)
            }
            Event::Alias(anchor) => {
                let Some(&original) = self.anchors.get(&anchor) else {
                    return Err(self.fault(
                        mark,
                        "the alias stands inside what it refers to",
                        "write the value out",
                    ));
                };
                return self.copy(original, parent);
            }
            _ => return Err(self.fault(mark, "a value is expected here", "")),
        };
        if anchor > 0 {
            self.anchors.insert(anchor, id);
        }
        Ok(id)
    }

    fn tagged(&mut self, mark: Mark) -> Stopped {
        self.fault(
            mark,
            "YAML tags (`!…`) are not supported",
            "remove the tag; put text in quotes",
        )
    }

    fn list(&mut self, id: NodeId) -> Result<(), Stopped> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => break,
                (event, span) => {
                    items.push(self.value(Some((id, Step::Index(items.len()))), event, &span)?)
                }
            }
        }
        self.nodes[id.0].value = Value::List(items);
        Ok(())
    }

    fn map(&mut self, id: NodeId) -> Result<(), Stopped> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen: HashMap<String, usize> = HashMap::new();
        let mut merged = Vec::new();
        loop {
            let (event, span) = self.next()?;
            let mark = Mark::from(&span);
            let (key, merge) = match event {
                Event::MappingEnd => break,
                Event::Scalar(text, style, ..) => {
                    let merge = text == "<<" && style == ScalarStyle::Plain;
                    (self.unshield(text), merge)
                }
                _ => return Err(self.fault(mark, "a key must be plain text", "")),
            };
            let (event, span) = self.next()?;
            let value = self.value(Some((id, Step::Key(key.clone()))), event, &span)?;
            if merge {
                merged.push((mark, value));
            } else if let Some(&first) = seen.get(&key) {
                let path = Tree::path_of(&self.nodes, value);
                let message = format!("the key `{}` is here twice, first on line {first}", shorten(&key));
                self.report((mark, path), message, "keep one of them");
            } else {
                seen.insert(key.clone(), mark.line);
                entries.push(Entry { key, mark, value });
            }
        }
        for (mark, value) in merged {
            self.merge(id, &mut entries, (mark, value))?;
        }
        self.nodes[id.0].value = Value::Map(entries);
        Ok(())
    }

    /// Takes over what a merge key names: keys that the map has itself, or got from an earlier one, stay.
    fn merge(&mut self, map: NodeId, entries: &mut Vec<Entry>, from: (Mark, NodeId)) -> Result<(), Stopped> {
        let sources = match &self.nodes[from.1.0].value {
            Value::List(items) => items.clone(),
            _ => vec![from.1],
        };
        for source in sources {
            let Value::Map(source) = self.nodes[source.0].value.clone() else {
                return Err(self.fault(from.0, "`<<` takes a map or a list of maps", "write `<<: *name`"));
            };
            for entry in source {
                if !entries.iter().any(|own| own.key == entry.key) {
                    self.nodes[entry.value.0].parent = Some((map, Step::Key(entry.key.clone())));
                    entries.push(entry);
                }
            }
        }
        Ok(())
    }

    /// Copies a finished subtree to where an alias stands. Its depth is bounded because the original's was, and copies
    /// of copies run into the bound on nodes.
    fn copy(&mut self, original: NodeId, parent: Option<(NodeId, Step)>) -> Result<NodeId, Stopped> {
        let mark = self.nodes[original.0].mark;
        let value = self.nodes[original.0].value.clone();
        let id = self.add(mark, parent, Value::List(Vec::new()))?;
        self.nodes[id.0].value = match value {
            Value::Scalar { .. } => value,
            Value::List(items) => {
                let mut copies = Vec::with_capacity(items.len());
                for (index, item) in items.into_iter().enumerate() {
                    copies.push(self.copy(item, Some((id, Step::Index(index))))?);
                }
                Value::List(copies)
            }
            Value::Map(entries) => {
                let mut copies = Vec::with_capacity(entries.len());
                for Entry { key, mark, value } in entries {
                    let value = self.copy(value, Some((id, Step::Key(key.clone()))))?;
                    copies.push(Entry { key, mark, value });
                }
                Value::Map(copies)
            }
        };
        Ok(id)
    }
}
