//! Values of a MessagePack message, read one after the other without building a tree.
//!
//! Nothing is allocated for what a length says, only for bytes that are there, and nesting costs no stack.

use rmp::Marker;
use rmp::decode;

/// What was expected where something else stands.
pub(super) type Expected = &'static str;

/// The rest of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

/// A number or bytes, by which an engine names a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name<'a> {
    /// A number, signed ones as their two's complement.
    Number(u64),
    /// The bytes of a digest.
    Bytes(&'a [u8]),
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes not read yet.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    fn marker(&self) -> Result<Marker, Expected> {
        self.rest
            .first()
            .map(|byte| Marker::from_u8(*byte))
            .ok_or("a value, but the message ends")
    }

    /// Whether the next value is an array.
    pub(super) fn is_array(&self) -> bool {
        matches!(
            self.marker(),
            Ok(Marker::FixArray(_) | Marker::Array16 | Marker::Array32)
        )
    }

    /// Whether the next value is nil; reads it if so.
    pub(super) fn nil(&mut self) -> bool {
        let nil = matches!(self.marker(), Ok(Marker::Null));
        if nil {
            self.rest = &self.rest[1..];
        }
        nil
    }

    /// The number of an array's elements, none of which is read.
    pub(super) fn array(&mut self) -> Result<usize, Expected> {
        let len = decode::read_array_len(&mut self.rest).map_err(|_| "an array")?;
        self.bounded(len, 1)
    }

    /// The number of a map's entries, none of which is read.
    pub(super) fn map(&mut self) -> Result<usize, Expected> {
        let len = decode::read_map_len(&mut self.rest).map_err(|_| "a map")?;
        self.bounded(len, 2)
    }

    /// A length that the bytes left can hold, at `bytes` or more an element.
    fn bounded(&self, len: u32, bytes: usize) -> Result<usize, Expected> {
        let len = usize::try_from(len).map_err(|_| "a length that fits")?;
        match len.checked_mul(bytes) {
            Some(needed) if needed <= self.rest.len() => Ok(len),
            _ => Err("as many elements as announced, but the message ends"),
        }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Expected> {
        let (head, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or("as many bytes as announced, but the message ends")?;
        self.rest = rest;
        Ok(head)
    }

    /// Text; what is no UTF-8 is an error.
    pub(super) fn text(&mut self) -> Result<&'a str, Expected> {
        let len = decode::read_str_len(&mut self.rest).map_err(|_| "a string")?;
        let bytes = self.take(usize::try_from(len).map_err(|_| "a length that fits")?)?;
        std::str::from_utf8(bytes).map_err(|_| "a string in UTF-8")
    }

    /// A whole number.
    pub(super) fn number(&mut self) -> Result<i128, Expected> {
        let negative = matches!(
            self.marker()?,
            Marker::FixNeg(_) | Marker::I8 | Marker::I16 | Marker::I32 | Marker::I64
        );
        if negative {
            decode::read_int::<i64, _>(&mut self.rest)
                .map(i128::from)
                .map_err(|_| "a whole number")
        } else {
            decode::read_int::<u64, _>(&mut self.rest)
                .map(i128::from)
                .map_err(|_| "a whole number")
        }
    }

    /// A number, whole or not.
    pub(super) fn float(&mut self) -> Result<f64, Expected> {
        match self.marker()? {
            Marker::F64 => decode::read_f64(&mut self.rest).map_err(|_| "a number"),
            Marker::F32 => decode::read_f32(&mut self.rest)
                .map(f64::from)
                .map_err(|_| "a number"),
            #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are far below 2^53")]
            _ => self.number().map(|whole| whole as f64),
        }
    }

    /// A block's name: a number, bytes, or a string, whose bytes count.
    pub(super) fn name(&mut self) -> Result<Name<'a>, Expected> {
        match self.marker()? {
            Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => {
                let len = decode::read_bin_len(&mut self.rest).map_err(|_| "bytes")?;
                self.take(usize::try_from(len).map_err(|_| "a length that fits")?)
                    .map(Name::Bytes)
            }
            Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => {
                self.text().map(|text| Name::Bytes(text.as_bytes()))
            }
            _ => {
                let number = self.number()?;
                let bits = u64::try_from(number)
                    .or_else(|_| i64::try_from(number).map(i64::cast_unsigned))
                    .map_err(|_| "a number of 64 bits")?;
                Ok(Name::Number(bits))
            }
        }
    }

    /// The bytes of the next value, whatever it is and however deep.
    pub(super) fn value(&mut self) -> Result<&'a [u8], Expected> {
        let start = self.rest;
        let mut values: usize = 1;
        while values > 0 {
            values -= 1;
            values = values.saturating_add(self.shallow()?);
        }
        Ok(&start[..start.len() - self.rest.len()])
    }

    /// Reads a value without its elements; says how many those are.
    fn shallow(&mut self) -> Result<usize, Expected> {
        let marker = self.marker()?;
        let fixed = match marker {
            Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => return self.array(),
            Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => return self.map().map(|len| len * 2),
            Marker::FixStr(len) => 1 + usize::from(len),
            Marker::Str8 | Marker::Bin8 => 2 + self.length(1)?,
            Marker::Str16 | Marker::Bin16 => 3 + self.length(2)?,
            Marker::Str32 | Marker::Bin32 => 5 + self.length(4)?,
            Marker::Ext8 => 3 + self.length(1)?,
            Marker::Ext16 => 4 + self.length(2)?,
            Marker::Ext32 => 6 + self.length(4)?,
            Marker::FixPos(_) | Marker::FixNeg(_) | Marker::Null | Marker::True | Marker::False => 1,
            Marker::U8 | Marker::I8 => 2,
            Marker::U16 | Marker::I16 | Marker::FixExt1 => 3,
            Marker::FixExt2 => 4,
            Marker::U32 | Marker::I32 | Marker::F32 => 5,
            Marker::FixExt4 => 6,
            Marker::U64 | Marker::I64 | Marker::F64 => 9,
            Marker::FixExt8 => 10,
            Marker::FixExt16 => 18,
            Marker::Reserved => return Err("a value of MessagePack"),
        };
        self.take(fixed).map(|_| 0)
    }

    /// The length in the `bytes` bytes behind the marker.
    fn length(&self, bytes: usize) -> Result<usize, Expected> {
        let digits = self.rest.get(1..=bytes).ok_or("a length, but the message ends")?;
        Ok(digits
            .iter()
            .fold(0, |sum, digit| (sum << 8) | usize::from(*digit)))
    }
}
