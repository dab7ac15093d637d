//! One batch as a publisher sends it: `[seconds, [events], rank?]`.
//!
//! Facts from the publishers' sources (vLLM 0.9 to 0.32, SGLang 0.4 to 0.5.23): the batch is an array (a map in
//! some versions between), an event a map with its kind under `type` (today) or an array that begins with its
//! kind (before), with fields left out from the end or, in maps, wherever they are absent. Names of blocks are
//! digests (vLLM) or numbers of 64 bits, signed (SGLang) or not.

use std::borrow::Cow;

use xxhash_rust::xxh3::xxh3_64;

use super::chain;
use super::pack::{Expected, Name, Reader};

/// Why a batch cannot be used. Quotes nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchError {
    /// What stands where something else was expected.
    pub expected: &'static str,
    /// How many bytes before the message's end.
    pub before_end: usize,
}

impl std::fmt::Display for BatchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "expected {}, {} bytes before the end of the batch",
            self.expected, self.before_end
        )
    }
}

impl std::error::Error for BatchError {}

/// What one step of an engine changed in its cache.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    /// When the engine made it, by its own clock, in seconds since 1970.
    pub seconds: f64,
    /// In the order in which they happened.
    pub events: Vec<Event>,
    /// The data-parallel rank whose cache it is, where it says one.
    pub rank: Option<u32>,
    /// Events of kinds that are not known here.
    pub unknown: u32,
    /// Stored blocks that cannot be used: tokens that are no numbers, or not as many as the blocks hold.
    pub unusable: u32,
}

/// One change of an engine's cache.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Blocks came in, each behind the one before.
    Stored(Stored),
    /// Blocks are gone.
    Removed {
        /// Their names, as the engine gives them.
        names: Vec<u64>,
        /// The group of layers whose cache it is, where the engine has several.
        group: Option<u32>,
    },
    /// The whole cache is empty.
    Cleared,
}

/// Blocks that came into an engine's cache.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stored {
    /// Their names, as the engine gives them.
    pub names: Vec<u64>,
    /// The engine's name of the block before the first of them; none where that is the first of a prompt.
    pub parent: Option<u64>,
    /// The tokens of all of them, `block_size` each.
    pub tokens: Vec<u32>,
    /// Tokens of a block.
    pub block_size: u32,
    /// [`chain::root`] of the adapter they belong to.
    pub root: u64,
    /// What the engine adds to the tokens of each block ([`chain::add`]); empty where that is nothing.
    pub added: Vec<u64>,
    /// The group of layers whose cache it is, where the engine has several.
    pub group: Option<u32>,
    /// Whether these layers keep whole prefixes; layers that look back over a window alone do not.
    pub whole: bool,
}

impl Batch {
    /// Reads a batch.
    ///
    /// # Errors
    ///
    /// What is no batch, and a removal that cannot be read, since what it removed would be believed cached for ever.
    pub fn decode(bytes: &[u8]) -> Result<Self, BatchError> {
        let mut reader = Reader::new(bytes);
        Self::read(&mut reader).map_err(|expected| BatchError {
            expected,
            before_end: reader.left(),
        })
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Expected> {
        let mut batch = Self::default();
        let mut events = None;
        if reader.is_array() {
            let len = reader.array()?;
            if len < 2 {
                return Err("a time and events");
            }
            batch.seconds = reader.float()?;
            events = Some(reader.value()?);
            for place in 2..len {
                let value = reader.value()?;
                if place == 2 {
                    batch.rank = rank(value);
                }
            }
        } else {
            for _ in 0..reader.map()? {
                let key = reader.text()?;
                let value = reader.value()?;
                match key {
                    "ts" => batch.seconds = Reader::new(value).float()?,
                    "events" => events = Some(value),
                    "data_parallel_rank" | "attn_dp_rank" => batch.rank = rank(value),
                    _ => {}
                }
            }
        }
        let mut events = Reader::new(events.ok_or("events")?);
        for _ in 0..events.array()? {
            batch.event(events.value()?)?;
        }
        Ok(batch)
    }

    fn event(&mut self, bytes: &[u8]) -> Result<(), Expected> {
        let fields = Fields::read(bytes)?;
        match fields.kind {
            "BlockStored" => match fields.stored() {
                Ok(stored) if stored.on_device => self.events.push(Event::Stored(stored.blocks)),
                Ok(_) => {}
                Err(_) => self.unusable += 1,
            },
            "BlockRemoved" => {
                if fields.on_device()? {
                    let names = names(fields.names)?;
                    self.events.push(Event::Removed {
                        names,
                        group: fields.group()?,
                    });
                }
            }
            "AllBlocksCleared" => self.events.push(Event::Cleared),
            _ => self.unknown += 1,
        }
        Ok(())
    }
}

fn rank(value: &[u8]) -> Option<u32> {
    Reader::new(value)
        .number()
        .ok()
        .and_then(|rank| rank.try_into().ok())
}

/// The fields of an event that matter, each as its bytes; empty where it is absent.
#[derive(Debug, Default)]
struct Fields<'a> {
    kind: &'a str,
    names: &'a [u8],
    parent: &'a [u8],
    tokens: &'a [u8],
    block_size: &'a [u8],
    adapter_id: &'a [u8],
    adapter: &'a [u8],
    medium: &'a [u8],
    locality: &'a [u8],
    salt: &'a [u8],
    added: &'a [u8],
    group: &'a [u8],
    layers: &'a [u8],
    window: &'a [u8],
}

struct OnDevice {
    blocks: Stored,
    on_device: bool,
}

impl<'a> Fields<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, Expected> {
        let mut reader = Reader::new(bytes);
        if reader.is_array() {
            return Self::in_order(&mut reader);
        }
        let mut fields = Self::default();
        for _ in 0..reader.map().map_err(|_| "an event")? {
            let key = reader.text()?;
            let value = reader.value()?;
            let field = match key {
                "type" => {
                    fields.kind = Reader::new(value).text()?;
                    continue;
                }
                "block_hashes" => &mut fields.names,
                "parent_block_hash" => &mut fields.parent,
                "token_ids" => &mut fields.tokens,
                "block_size" => &mut fields.block_size,
                "lora_id" => &mut fields.adapter_id,
                "lora_name" => &mut fields.adapter,
                "medium" => &mut fields.medium,
                "locality" => &mut fields.locality,
                "cache_salt" => &mut fields.salt,
                "extra_keys" => &mut fields.added,
                "group_idx" => &mut fields.group,
                "kv_cache_spec_kind" => &mut fields.layers,
                "kv_cache_spec_sliding_window" => &mut fields.window,
                _ => continue,
            };
            *field = value;
        }
        Ok(fields)
    }

    fn in_order(reader: &mut Reader<'a>) -> Result<Self, Expected> {
        let len = reader.array()?;
        if len == 0 {
            return Err("an event's kind");
        }
        let mut fields = Self {
            kind: reader.text()?,
            ..Self::default()
        };
        let stored = fields.kind == "BlockStored";
        for place in 1..len {
            let value = reader.value()?;
            let field = match (place, stored) {
                (1, _) => &mut fields.names,
                (2, true) => &mut fields.parent,
                (3, true) => &mut fields.tokens,
                (4, true) => &mut fields.block_size,
                (5, true) => &mut fields.adapter_id,
                (6, true) | (2, false) => &mut fields.medium,
                (7, true) => &mut fields.adapter,
                (8, true) => &mut fields.added,
                (9, true) | (3, false) => &mut fields.group,
                (10, true) => &mut fields.layers,
                (11, true) => &mut fields.window,
                _ => continue,
            };
            *field = value;
        }
        Ok(fields)
    }

    /// Whether it is about the memory that the engine computes with, and not a tier behind it or another machine's.
    fn on_device(&self) -> Result<bool, Expected> {
        let device = optional(self.medium, Reader::text)?.is_none_or(|medium| medium == "GPU");
        Ok(device && optional(self.locality, Reader::text)?.is_none_or(|place| place != "REMOTE"))
    }

    fn group(&self) -> Result<Option<u32>, Expected> {
        let group = optional(self.group, Reader::number)?;
        group
            .map(|group| u32::try_from(group).map_err(|_| "a group's number"))
            .transpose()
    }

    fn stored(&self) -> Result<OnDevice, Expected> {
        let names = names(self.names)?;
        let tokens = tokens(self.tokens)?;
        let block_size = Reader::new(self.block_size).number()?;
        let block_size = u32::try_from(block_size).map_err(|_| "a block's size")?;
        if block_size == 0 || names.len().checked_mul(block_size as usize) != Some(tokens.len()) {
            return Err("as many tokens as the blocks hold");
        }
        let adapter = optional(self.adapter, Reader::text)?;
        let layers = optional(self.layers, Reader::text)?;
        let window = optional(self.window, Reader::number)?;
        let parent = optional(self.parent, Reader::name)?.map(fingerprint);
        let mut blocks = Stored {
            added: added(self.added, adapter, names.len())?,
            names,
            parent,
            tokens,
            block_size,
            root: chain::root(self.adapter_name(adapter)?.as_deref()),
            group: self.group()?,
            whole: window.is_none() && layers.is_none_or(keeps_whole_prefixes),
        };
        if let (Some(salt), None) = (optional(self.salt, Reader::text)?, parent) {
            // SGLang says it of every event of the prompt, vLLM adds it to the first block alone.
            blocks.added.resize(blocks.names.len(), 0);
            if let Some(first) = blocks.added.first_mut() {
                *first = chain::add(*first, salt.as_bytes());
            }
        }
        Ok(OnDevice {
            blocks,
            on_device: self.on_device()?,
        })
    }

    /// The adapter's name, or in its place what older engines say alone, its number.
    fn adapter_name(&self, name: Option<&'a str>) -> Result<Option<Cow<'a, str>>, Expected> {
        if let Some(name) = name {
            return Ok(Some(Cow::Borrowed(name)));
        }
        Ok(optional(self.adapter_id, Reader::name)?.map(|id| match id {
            Name::Number(number) => Cow::Owned(format!("#{number}")),
            Name::Bytes(bytes) => String::from_utf8_lossy(bytes),
        }))
    }
}

/// The value of a field, or none where it is absent or nil.
fn optional<'a, T>(
    bytes: &'a [u8],
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, Expected>,
) -> Result<Option<T>, Expected> {
    let mut reader = Reader::new(bytes);
    if bytes.is_empty() || reader.nil() {
        return Ok(None);
    }
    read(&mut reader).map(Some)
}

/// Which kinds of layers keep every block of a prefix, of those that vLLM names.
fn keeps_whole_prefixes(layers: &str) -> bool {
    !["sliding", "window", "mamba", "chunked", "linear", "cross"]
        .iter()
        .any(|word| layers.contains(word))
}

/// What stands for an engine's name of a block: a digest is cut to 64 bits.
fn fingerprint(name: Name<'_>) -> u64 {
    match name {
        Name::Number(number) => number,
        Name::Bytes(bytes) => xxh3_64(bytes),
    }
}

fn names(bytes: &[u8]) -> Result<Vec<u64>, Expected> {
    let mut reader = Reader::new(bytes);
    let len = reader.array().map_err(|_| "names of blocks")?;
    let mut names = Vec::with_capacity(len);
    for _ in 0..len {
        names.push(fingerprint(reader.name()?));
    }
    Ok(names)
}

fn tokens(bytes: &[u8]) -> Result<Vec<u32>, Expected> {
    let mut reader = Reader::new(bytes);
    let len = reader.array().map_err(|_| "tokens")?;
    let mut tokens = Vec::with_capacity(len);
    for _ in 0..len {
        tokens.push(u32::try_from(reader.number()?).map_err(|_| "a token")?);
    }
    Ok(tokens)
}

/// What is added to each of `blocks` blocks, without the adapter, which is in the root; empty where it is nothing.
fn added(bytes: &[u8], adapter: Option<&str>, blocks: usize) -> Result<Vec<u64>, Expected> {
    let Some(mut reader) = optional(bytes, |reader| Ok(*reader))? else {
        return Ok(Vec::new());
    };
    let len = reader.array()?;
    if len != blocks {
        return Err("one list of extra keys a block");
    }
    let mut added = vec![0; len];
    for block in &mut added {
        if reader.nil() {
            continue;
        }
        for place in 0..reader.array()? {
            let thing = reader.value()?;
            let text = Reader::new(thing).text().ok();
            if place == 0 && text.is_some() && text == adapter {
                continue;
            }
            *block = chain::add(*block, text.map_or(thing, str::as_bytes));
        }
    }
    if added.iter().all(|added| *added == 0) {
        added.clear();
    }
    Ok(added)
}

#[cfg(test)]
pub(super) mod tests;
