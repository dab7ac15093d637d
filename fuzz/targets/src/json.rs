//! JSON as RFC 8259 has it, read into a tree that keeps the raw text of every value: what the readers of the product, which
//! build no tree, are compared with.

/// Deeper nesting than this is not compared.
const DEPTH_MAX: usize = 100;

#[derive(Debug)]
pub(crate) struct Node<'a> {
    /// The value as it stands in the text, quotes included.
    pub(crate) raw: &'a str,
    pub(crate) kind: Kind<'a>,
}

#[derive(Debug)]
pub(crate) enum Kind<'a> {
    Null,
    Bool(bool),
    Number,
    /// None for an escape that stands for no character.
    Text(Option<String>),
    List(Vec<Node<'a>>),
    Object(Vec<(Node<'a>, Node<'a>)>),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Invalid,
    /// Nested deeper than is compared; it may be valid.
    TooDeep,
}

/// The one value that `text` holds.
pub(crate) fn parse(text: &str) -> Result<Node<'_>, Fault> {
    let mut reader = Reader { text, at: 0 };
    let node = reader.value(0)?;
    reader.space();
    if reader.at == text.len() {
        Ok(node)
    } else {
        Err(Fault::Invalid)
    }
}

impl<'a> Node<'a> {
    pub(crate) fn fields(&self) -> Option<&[(Node<'a>, Node<'a>)]> {
        match &self.kind {
            Kind::Object(fields) => Some(fields),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) => text.as_deref(),
            _ => None,
        }
    }

    /// The last field whose key spells `name`, escaped or not.
    pub(crate) fn last(&self, name: &str) -> Option<&Node<'a>> {
        let fields = self.fields()?.iter().rev();
        fields
            .filter(|(key, _)| key.text() == Some(name))
            .map(|(_, value)| value)
            .next()
    }

    pub(crate) fn count(&self, name: &str) -> usize {
        let fields = self.fields().unwrap_or_default().iter();
        fields.filter(|(key, _)| key.text() == Some(name)).count()
    }

    /// Where `raw`, a part of this value, stands in `text`, which holds it.
    pub(crate) fn offset(text: &str, raw: &str) -> usize {
        raw.as_ptr().addr() - text.as_ptr().addr()
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn next(&mut self) -> Result<u8, Fault> {
        let byte = self.peek().ok_or(Fault::Invalid)?;
        self.at += 1;
        Ok(byte)
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn expect(&mut self, word: &str) -> Result<(), Fault> {
        let found = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
        self.at += word.len();
        if found { Ok(()) } else { Err(Fault::Invalid) }
    }

    fn value(&mut self, depth: usize) -> Result<Node<'a>, Fault> {
        if depth > DEPTH_MAX {
            return Err(Fault::TooDeep);
        }
        self.space();
        let start = self.at;
        let kind = match self.peek().ok_or(Fault::Invalid)? {
            b'n' => self.expect("null").map(|()| Kind::Null),
            b't' => self.expect("true").map(|()| Kind::Bool(true)),
            b'f' => self.expect("false").map(|()| Kind::Bool(false)),
            b'"' => self.string().map(Kind::Text),
            b'[' => self.list(depth),
            b'{' => self.object(depth),
            _ => self.number().map(|()| Kind::Number),
        }?;
        Ok(Node {
            raw: &self.text[start..self.at],
            kind,
        })
    }

    fn list(&mut self, depth: usize) -> Result<Kind<'a>, Fault> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Kind::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.space();
            match self.next()? {
                b',' => {}
                b']' => return Ok(Kind::List(items)),
                _ => return Err(Fault::Invalid),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Kind<'a>, Fault> {
        self.at += 1;
        let mut fields = Vec::new();
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Kind::Object(fields));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(Fault::Invalid);
            }
            let key = self.value(depth + 1)?;
            self.space();
            self.expect(":")?;
            fields.push((key, self.value(depth + 1)?));
            self.space();
            match self.next()? {
                b',' => {}
                b'}' => return Ok(Kind::Object(fields)),
                _ => return Err(Fault::Invalid),
            }
        }
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > start {
            Ok(())
        } else {
            Err(Fault::Invalid)
        }
    }

    fn number(&mut self) -> Result<(), Fault> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn string(&mut self) -> Result<Option<String>, Fault> {
        self.at += 1;
        let mut units: Vec<u16> = Vec::new();
        loop {
            let rest = &self.text[self.at..];
            let first = rest.chars().next().ok_or(Fault::Invalid)?;
            self.at += first.len_utf8();
            match first {
                '"' => return Ok(String::from_utf16(&units).ok()),
                '\\' => units.push(self.escape()?),
                '\0'..'\x20' => return Err(Fault::Invalid),
                other => units.extend(other.encode_utf16(&mut [0; 2]).iter()),
            }
        }
    }

    fn escape(&mut self) -> Result<u16, Fault> {
        Ok(match self.next()? {
            byte @ (b'"' | b'\\' | b'/') => byte.into(),
            b'b' => 8,
            b't' => 9,
            b'n' => 10,
            b'f' => 12,
            b'r' => 13,
            b'u' => {
                let mut unit = 0;
                for _ in 0..4 {
                    let digit = char::from(self.next()?).to_digit(16).ok_or(Fault::Invalid)?;
                    unit = unit * 16 + digit;
                }
                u16::try_from(unit).map_err(|_| Fault::Invalid)?
            }
            _ => return Err(Fault::Invalid),
        })
    }
}
