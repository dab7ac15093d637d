//! Going through the parts of a prompt in the order of a chat template.

use std::borrow::Cow;

use super::Opening;
use super::blocks::{Blocks, Mark};
use super::facts::{Fields, Needs};
use super::media::{self, Medium};
use crate::fields::{Malformed, Reader, each_field, integer, is_key, text};

type Read = Result<(), Malformed>;

/// Deeper values are taken as the JSON they are. Nothing that is told apart lies deeper: a message's content, its
/// parts, and the parts of a tool's result.
const DEPTH_MAX: u8 = 5;

/// Tokens that the template puts around each message.
const PER_MESSAGE: u64 = 4;
/// Tokens with which the template begins the answer.
const PER_ANSWER: u64 = 3;

pub(super) struct Walk<'a> {
    blocks: Blocks<'a>,
    pub(super) needs: Needs,
    pub(super) turns: u32,
    /// None as long as no answer has come.
    pub(super) opening: Option<Opening>,
}

/// Whether a message of this role, or an item of this type, is said to the model; all else answers, or follows an answer.
fn is_asked(role: &str) -> bool {
    matches!(role, "user" | "system" | "developer" | "") || role.starts_with("input_")
}

/// What a field of a message, or of a part of it, means.
enum Meaning {
    /// Nothing to the model.
    Nothing,
    /// Its text, or the parts that are.
    Content,
    /// Images and other media.
    Media(Medium),
    /// JSON of the client's own, in which no name means anything here.
    Data,
    /// Something else that a template may write.
    Other,
}

impl Meaning {
    fn of(key: &str, kind: &str) -> Self {
        match key {
            "content" | "text" => Self::Content,
            "type" | "role" | "id" | "index" | "status" | "call_id" | "tool_call_id" | "tool_use_id"
            | "cache_control" | "signature" | "encrypted_content" | "annotations" | "data" | "detail" => {
                Self::Nothing
            }
            "input" | "arguments" | "parameters" | "output" if !kind.ends_with("_output") => Self::Data,
            _ => Medium::of_field(key, kind).map_or(Self::Other, Self::Media),
        }
    }
}

impl<'a> Walk<'a> {
    pub(super) fn new(blocks: Blocks<'a>) -> Self {
        Self {
            blocks,
            needs: Needs::default(),
            turns: 0,
            opening: None,
        }
    }

    /// All that comes now is no part of the opening.
    pub(super) fn end_opening(&mut self) {
        if self.opening.is_none() {
            self.opening = self.blocks.so_far();
        }
    }

    /// The tokens of all that was read, and its bytes.
    pub(super) fn into_counts(self) -> (u64, u64) {
        self.blocks.into_counts()
    }

    /// Tools, then the system prompt, then what is asked.
    pub(super) fn prompt(&mut self, fields: &Fields<'_>) -> Read {
        for tools in [fields.tools, fields.functions].into_iter().flatten() {
            self.tools(tools)?;
        }
        for system in [fields.system, fields.instructions].into_iter().flatten() {
            if system != "null" {
                self.begin_message("system");
                self.content(&mut Reader::new(system), DEPTH_MAX)?;
            }
        }
        for asked in [fields.messages, fields.input].into_iter().flatten() {
            self.messages(asked)?;
            self.blocks.count(PER_ANSWER);
        }
        fields.prompt.map_or(Ok(()), |prompt| self.plain(prompt))
    }

    /// What is embedded, ranked or compared.
    pub(super) fn texts(&mut self, fields: &Fields<'_>) -> Read {
        if let Some(input) = fields.input {
            self.plain(input)?;
        }
        for text in fields.compared.into_iter().flatten() {
            self.value(&mut Reader::new(text), DEPTH_MAX)?;
        }
        Ok(())
    }

    fn tools(&mut self, raw: &str) -> Read {
        let mut reader = Reader::new(raw);
        if reader.byte() != Some(b'[') {
            return Ok(());
        }
        each(&mut reader, |reader| {
            self.blocks.mark(Mark::Tool);
            if reader.byte() != Some(b'{') {
                return self.data(reader.value()?);
            }
            fields(reader, |key, reader| {
                let value = reader.value()?;
                if key == "cache_control" {
                    return Ok(());
                }
                self.blocks.mark(Mark::Field);
                self.blocks.text(key.as_bytes());
                self.blocks.mark(Mark::Value);
                self.data(value)
            })
        })
    }

    /// A conversation, or one text of a user.
    fn messages(&mut self, raw: &str) -> Read {
        let mut reader = Reader::new(raw);
        match reader.byte() {
            Some(b'[') => each(&mut reader, |reader| match reader.byte() {
                Some(b'{') => self.message(reader),
                Some(b'"') => self.user_says(reader),
                _ => reader.value().map(drop),
            }),
            Some(b'"') => self.user_says(&mut reader),
            _ => Ok(()),
        }
    }

    fn user_says(&mut self, reader: &mut Reader<'_>) -> Read {
        self.begin_message("user");
        reader.text(|piece| self.blocks.text(piece))
    }

    fn begin_message(&mut self, role: &str) {
        self.turns += u32::from(role == "user");
        if !is_asked(role) {
            self.end_opening();
        }
        self.blocks.mark(Mark::Role);
        self.blocks.append(role.as_bytes());
        self.blocks.mark(Mark::Content);
        self.blocks.count(PER_MESSAGE);
    }

    fn message(&mut self, reader: &mut Reader<'_>) -> Read {
        let kind = kind(reader.rest(), &["role", "type"])?;
        self.begin_message(&kind);
        self.fields(reader, (&kind, DEPTH_MAX))
    }

    /// The fields of a message or of a part of one, of which the kind is known.
    fn fields(&mut self, reader: &mut Reader<'_>, (kind, depth): (&str, u8)) -> Read {
        fields(reader, |key, reader| {
            match Meaning::of(key, kind) {
                _ if reader.rest().starts_with("null") => reader.value().map(drop),
                Meaning::Nothing => reader.value().map(drop),
                Meaning::Content => self.content(reader, depth),
                // What is no text is no address either.
                Meaning::Media(medium) if key != "source" || reader.byte() == Some(b'{') => {
                    self.needs = self.needs.and(medium.needs());
                    let hash = media::hash(reader.value()?)?;
                    self.blocks.medium(hash, medium.tokens());
                    Ok(())
                }
                Meaning::Data => {
                    self.name(key);
                    self.data(reader.value()?)
                }
                Meaning::Other | Meaning::Media(_) => {
                    self.name(key);
                    self.value(reader, depth)
                }
            }
        })
    }

    fn name(&mut self, key: &str) {
        self.blocks.mark(Mark::Field);
        self.blocks.append(key.as_bytes());
        self.blocks.mark(Mark::Value);
    }

    /// A text, or parts that are one text together.
    fn content(&mut self, reader: &mut Reader<'_>, depth: u8) -> Read {
        match reader.byte() {
            Some(b'"') => reader.text(|piece| self.blocks.text(piece)),
            Some(b'[') if depth > 0 => each(reader, |reader| self.content(reader, depth - 1)),
            Some(b'{') if depth > 0 => self.part(reader, depth - 1),
            _ => self.data(reader.value()?),
        }
    }

    /// Whatever else a message holds: calls of tools, thoughts, names.
    fn value(&mut self, reader: &mut Reader<'_>, depth: u8) -> Read {
        match reader.byte() {
            Some(b'"') => reader.text(|piece| self.blocks.text(piece)),
            Some(b'[') if depth > 0 => each(reader, |reader| {
                self.blocks.mark(Mark::Item);
                self.value(reader, depth - 1)
            }),
            Some(b'{') if depth > 0 => self.part(reader, depth - 1),
            _ => self.data(reader.value()?),
        }
    }

    fn part(&mut self, reader: &mut Reader<'_>, depth: u8) -> Read {
        let kind = kind(reader.rest(), &["type"])?;
        self.fields(reader, (&kind, depth))
    }

    /// A value that is read as JSON; a string as its text.
    fn data(&mut self, raw: &str) -> Read {
        if raw.starts_with('"') {
            return Reader::new(raw).text(|piece| self.blocks.text(piece));
        }
        media::compact(raw, |piece| self.blocks.text(piece))
    }

    /// The prompt of a completion: a text or its tokens, or several of either.
    fn plain(&mut self, raw: &str) -> Read {
        self.turns += 1;
        let mut reader = Reader::new(raw);
        match reader.byte() {
            Some(b'"') => reader.text(|piece| self.blocks.text(piece)),
            Some(b'[') => self.ids(&mut reader, 1),
            _ => Ok(()),
        }
    }

    fn ids(&mut self, reader: &mut Reader<'_>, depth: u8) -> Read {
        self.blocks.mark(Mark::Ids);
        each(reader, |reader| match reader.byte() {
            Some(b'"') => {
                self.blocks.mark(Mark::Item);
                reader.text(|piece| self.blocks.text(piece))
            }
            Some(b'[') if depth > 0 => self.ids(reader, depth - 1),
            _ => {
                let id = integer(reader.value()?);
                if let Some(id) = id.and_then(|id| u32::try_from(id).ok()) {
                    self.blocks.id(id);
                }
                Ok(())
            }
        })
    }
}

/// The string of the first of `names` that the object at the beginning of `json` has; empty where it has none. It nearly
/// always stands first, and is only looked for in the whole object where it does not.
fn kind<'a>(json: &'a str, names: &[&str]) -> Result<Cow<'a, str>, Malformed> {
    let mut reader = Reader::new(json);
    reader.expect(b'{')?;
    reader.skip_space();
    if reader.eat(b'}') {
        return Ok(Cow::Borrowed(""));
    }
    if is_key(reader.key()?, names[0])
        && let Some(kind) = text(reader.value()?)
    {
        return Ok(kind);
    }
    let mut found = vec![None; names.len()];
    each_field(Reader::new(json).value()?, |key, value| {
        for (name, found) in names.iter().zip(&mut found) {
            if found.is_none() && is_key(key, name) {
                *found = text(value);
            }
        }
    })?;
    Ok(found.into_iter().flatten().next().unwrap_or_default())
}

/// Calls `on_item` at every item of the array that is next; it reads the item.
fn each<'a>(reader: &mut Reader<'a>, mut on_item: impl FnMut(&mut Reader<'a>) -> Read) -> Read {
    reader.expect(b'[')?;
    reader.skip_space();
    if reader.eat(b']') {
        return Ok(());
    }
    loop {
        on_item(reader)?;
        reader.skip_space();
        if !reader.eat(b',') {
            return reader.expect(b']');
        }
        reader.skip_space();
    }
}

/// Calls `on_field` at the value of every field of the object that is next, with the key; it reads the value.
fn fields<'a>(reader: &mut Reader<'a>, mut on_field: impl FnMut(&str, &mut Reader<'a>) -> Read) -> Read {
    reader.expect(b'{')?;
    reader.skip_space();
    if reader.eat(b'}') {
        return Ok(());
    }
    loop {
        let key = text(reader.key()?);
        match key {
            Some(key) => on_field(&key, reader)?,
            None => reader.value().map(drop)?,
        }
        reader.skip_space();
        if !reader.eat(b',') {
            return reader.expect(b'}');
        }
        reader.skip_space();
    }
}
