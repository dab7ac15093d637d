//! Reading JSON text forward, value by value, without making anything of it.
//!
//! It accepts what `serde_json` accepts, which a property test holds it to, and takes the long way for neither strings
//! nor nesting: strings are searched by blocks of bytes for what ends them, and a level of nesting is one bit.

/// The text is no JSON, or not of the wanted type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// A place in JSON text.
pub(crate) struct Reader<'a> {
    json: &'a str,
    at: usize,
}

/// The open brackets round a place: set bits are objects, the lowest is the innermost.
#[derive(Default)]
struct Levels {
    near: u64,
    depth: u32,
    /// Those that do not fit.
    far: Vec<u64>,
}

impl Levels {
    fn push(&mut self, object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(u64::BITS) {
            self.far.push(std::mem::take(&mut self.near));
        }
        self.near = self.near << 1 | u64::from(object);
        self.depth += 1;
    }

    /// Leaves the innermost level, and gives whether any is left.
    fn pop(&mut self) {
        self.depth -= 1;
        self.near >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(u64::BITS) {
            self.near = self.far.pop().unwrap_or_default();
        }
    }

    /// Whether the innermost level is an object; None outside of all.
    fn innermost(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.near & 1 == 1)
    }
}

impl<'a> Reader<'a> {
    pub(crate) fn new(json: &'a str) -> Self {
        Self { json, at: 0 }
    }

    pub(crate) fn byte(&self) -> Option<u8> {
        self.json.as_bytes().get(self.at).copied()
    }

    pub(crate) fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.byte() {
            self.at += 1;
        }
    }

    /// Skips `byte` if it is next.
    pub(crate) fn eat(&mut self, byte: u8) -> bool {
        let next = self.byte() == Some(byte);
        self.at += usize::from(next);
        next
    }

    pub(crate) fn expect(&mut self, byte: u8) -> Result<(), Malformed> {
        if self.eat(byte) { Ok(()) } else { Err(Malformed) }
    }

    /// Nothing but space may follow.
    pub(crate) fn end(&mut self) -> Result<(), Malformed> {
        self.skip_space();
        if self.byte().is_none() {
            Ok(())
        } else {
            Err(Malformed)
        }
    }

    /// A key, its colon and the space round that: the key with its quotes.
    pub(crate) fn key(&mut self) -> Result<&'a str, Malformed> {
        let start = self.at;
        self.expect(b'"')?;
        self.string()?;
        let key = &self.json[start..self.at];
        self.skip_space();
        self.expect(b':')?;
        self.skip_space();
        Ok(key)
    }

    /// A value, from its first byte to its last.
    pub(crate) fn value(&mut self) -> Result<&'a str, Malformed> {
        let start = self.at;
        match self.byte() {
            Some(b'"') => {
                self.at += 1;
                self.string()?;
            }
            Some(b'{' | b'[') => self.nested()?,
            _ => self.plain()?,
        }
        Ok(&self.json[start..self.at])
    }

    /// An object or array with all that is in it.
    fn nested(&mut self) -> Result<(), Malformed> {
        let mut levels = Levels::default();
        loop {
            // At the start of a value.
            match self.byte() {
                Some(open @ (b'{' | b'[')) => {
                    self.at += 1;
                    self.skip_space();
                    // Their closing brackets are two further on.
                    if !self.eat(open + 2) {
                        levels.push(open == b'{');
                        if open == b'{' {
                            self.key()?;
                        }
                        continue;
                    }
                }
                Some(b'"') => {
                    self.at += 1;
                    self.string()?;
                }
                _ => self.plain()?,
            }
            // Behind it.
            loop {
                let Some(object) = levels.innermost() else {
                    return Ok(());
                };
                self.skip_space();
                if self.eat(b',') {
                    self.skip_space();
                    if object {
                        self.key()?;
                    }
                    break;
                }
                self.expect(if object { b'}' } else { b']' })?;
                levels.pop();
            }
        }
    }

    /// A number, true, false or null.
    fn plain(&mut self) -> Result<(), Malformed> {
        let rest = &self.json.as_bytes()[self.at..];
        let word: &[u8] = match rest.first() {
            Some(b'n') => b"null",
            Some(b't') => b"true",
            Some(b'f') => b"false",
            _ => return self.number(),
        };
        if !rest.starts_with(word) {
            return Err(Malformed);
        }
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), Malformed> {
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        } else if self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
            return Err(Malformed);
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _ = self.eat(b'+') || self.eat(b'-');
            self.digits()?;
        }
        Ok(())
    }

    /// At least one.
    fn digits(&mut self) -> Result<(), Malformed> {
        let start = self.at;
        while self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(Malformed) }
    }

    /// Whether the whole text could stand between the quotes of a string.
    pub(super) fn is_string_inside(&self) -> bool {
        let bytes = self.json.as_bytes();
        let mut at = self.at;
        loop {
            at += super::blocks::plain_len(&bytes[at..]);
            match bytes.get(at) {
                None => return true,
                Some(b'\\') => match escape_len(&bytes[at + 1..]) {
                    Ok(len) => at += len,
                    Err(Malformed) => return false,
                },
                Some(_) => return false,
            }
        }
    }

    /// The text of the string that is next, piece by piece: what stands there as it is, and the characters of escapes. Short
    /// pieces are put together first, since whoever takes them does so at a cost.
    pub(crate) fn text(&mut self, mut on_piece: impl FnMut(&[u8])) -> Result<(), Malformed> {
        self.expect(b'"')?;
        let mut gathered = [0; 128];
        let mut len = 0;
        loop {
            let rest = &self.json.as_bytes()[self.at..];
            let plain = super::blocks::plain_len(rest);
            let end = rest.get(plain);
            self.at += plain;
            let room = gathered.get_mut(len..len + plain);
            match room.filter(|_| len > 0 || end == Some(&b'\\')) {
                Some(room) => {
                    room.copy_from_slice(&rest[..plain]);
                    len += plain;
                }
                None => {
                    if len > 0 {
                        on_piece(&gathered[..len]);
                        len = 0;
                    }
                    if plain > 0 {
                        on_piece(&rest[..plain]);
                    }
                }
            }
            match end {
                Some(b'"') => {
                    self.at += 1;
                    if len > 0 {
                        on_piece(&gathered[..len]);
                    }
                    return Ok(());
                }
                Some(b'\\') => {
                    let (character, escape_len) = unescaped(&rest[plain + 1..])?;
                    self.at += escape_len;
                    if gathered.len() - len < 4 {
                        on_piece(&gathered[..len]);
                        len = 0;
                    }
                    len += character.encode_utf8(&mut gathered[len..]).len();
                }
                _ => return Err(Malformed),
            }
        }
    }

    /// What is left to read.
    pub(crate) fn rest(&self) -> &'a str {
        &self.json[self.at..]
    }

    /// The rest of a string, from behind its opening quote to behind its closing one.
    fn string(&mut self) -> Result<(), Malformed> {
        loop {
            self.at += super::blocks::plain_len(&self.json.as_bytes()[self.at..]);
            match self.byte() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.at += escape_len(&self.json.as_bytes()[self.at + 1..])?,
                _ => return Err(Malformed),
            }
        }
    }
}

/// The length of an escape with its backslash, behind which `rest` begins.
#[inline(always)]
fn escape_len(rest: &[u8]) -> Result<usize, Malformed> {
    match rest.first() {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(2),
        // Whether it stands for a character is not asked here.
        Some(b'u')
            if rest
                .get(1..5)
                .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) =>
        {
            Ok(6)
        }
        _ => Err(Malformed),
    }
}

/// The character that an escape stands for, behind whose backslash `rest` begins, and the length of the escape with its
/// backslash. Half of a pair of surrogates without the other half stands for the replacement character.
fn unescaped(rest: &[u8]) -> Result<(char, usize), Malformed> {
    let plain = match rest.first() {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(&same @ (b'"' | b'\\' | b'/')) => char::from(same),
        Some(b'u') => {
            let unit = code_unit(rest)?;
            if let Some(plain) = char::from_u32(unit) {
                return Ok((plain, 6));
            }
            let second = rest.get(5..).filter(|rest| rest.first() == Some(&b'\\'));
            let second = second.and_then(|rest| code_unit(&rest[1..]).ok());
            return Ok(match (unit, second) {
                (0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) => {
                    let code = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                    (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 12)
                }
                _ => (char::REPLACEMENT_CHARACTER, 6),
            });
        }
        _ => return Err(Malformed),
    };
    Ok((plain, 2))
}

/// The number of `u` and four hexadecimal digits, with which `rest` begins.
fn code_unit(rest: &[u8]) -> Result<u32, Malformed> {
    let digits = rest.get(1..5).ok_or(Malformed)?;
    if rest.first() != Some(&b'u') {
        return Err(Malformed);
    }
    digits.iter().try_fold(0, |unit, &digit| {
        let digit = char::from(digit).to_digit(16).ok_or(Malformed)?;
        Ok(unit << 4 | digit)
    })
}

#[cfg(test)]
mod tests;
