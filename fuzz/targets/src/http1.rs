//! HTTP/1.1 messages as RFC 9112 has them, read strictly from a whole connection's bytes.
//!
//! Of what a recipient may tolerate it takes: empty lines before a request, a bare LF as the end of a line of the head, space
//! round a chunk's size, chunk extensions, and several equal lengths.

/// A request or an answer.
#[derive(Debug)]
pub(crate) struct Message {
    /// Method, target and version; or version, status and reason.
    pub(crate) line: [String; 3],
    /// Names in small letters.
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
    /// Whether the end of the connection ended the body.
    pub(crate) until_close: bool,
}

/// What follows the last whole message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Nothing.
    Clean,
    /// A message that broke off.
    Cut,
    /// What is no message.
    Malformed,
}

type Parsed<T> = Result<T, Tail>;

impl Message {
    pub(crate) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        let name = name.to_owned();
        let named = self.headers.iter().filter(move |(found, _)| *found == name);
        named.map(|(_, value)| value.as_slice())
    }

    pub(crate) fn first(&self, name: &str) -> Option<&[u8]> {
        self.all(name).next()
    }

    /// Of an answer.
    pub(crate) fn status(&self) -> u16 {
        self.line[1].parse().unwrap_or(0)
    }

    /// Of a request.
    pub(crate) fn method(&self) -> &str {
        &self.line[0]
    }

    fn is_chunked(&self) -> Parsed<bool> {
        let codings: Vec<&[u8]> = self
            .all("transfer-encoding")
            .flat_map(|value| value.split(|byte| *byte == b','))
            .map(<[u8]>::trim_ascii)
            .filter(|coding| !coding.is_empty())
            .collect();
        match codings.as_slice() {
            [] if self.first("transfer-encoding").is_some() => Err(Tail::Malformed),
            [] => Ok(false),
            [.., last] if last.eq_ignore_ascii_case(b"chunked") => Ok(true),
            _ => Err(Tail::Malformed),
        }
    }

    fn length(&self) -> Parsed<Option<usize>> {
        let mut length = None;
        for value in self.all("content-length") {
            let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
            let said = std::str::from_utf8(value).ok().filter(|_| digits);
            let said = said.and_then(|said| said.parse().ok()).ok_or(Tail::Malformed)?;
            if length.is_some_and(|length: usize| length != said) {
                return Err(Tail::Malformed);
            }
            length = Some(said);
        }
        Ok(length)
    }
}

/// All requests of a connection.
pub(crate) fn requests(bytes: &[u8]) -> (Vec<Message>, Tail) {
    let mut reader = Reader { bytes, at: 0 };
    let mut requests = Vec::new();
    loop {
        while matches!(reader.bytes[reader.at..], [b'\n', ..] | [b'\r', b'\n', ..]) {
            reader.at += 1;
        }
        if reader.at == bytes.len() {
            return (requests, Tail::Clean);
        }
        match reader.request() {
            Ok(request) => requests.push(request),
            Err(tail) => return (requests, tail),
        }
    }
}

/// All answers of a connection to requests of these methods, in order; interim answers are left out.
pub(crate) fn answers(bytes: &[u8], methods: &[String]) -> (Vec<Message>, Tail) {
    let mut reader = Reader { bytes, at: 0 };
    let mut answers: Vec<Message> = Vec::new();
    while reader.at < bytes.len() {
        let method = methods.get(answers.len()).map_or("", String::as_str);
        match reader.answer(method) {
            Ok(answer) if (100..200).contains(&answer.status()) => {}
            Ok(answer) => answers.push(answer),
            Err(tail) => return (answers, tail),
        }
    }
    (answers, Tail::Clean)
}

/// The first answer to a POST, and how many bytes it and the interim answers before it take.
pub(crate) fn first_answer(bytes: &[u8]) -> Parsed<(Message, usize)> {
    let mut reader = Reader { bytes, at: 0 };
    loop {
        let answer = reader.answer("POST")?;
        if !(100..200).contains(&answer.status()) {
            return Ok((answer, reader.at));
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn line(&mut self) -> Parsed<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|byte| *byte == b'\n').ok_or(Tail::Cut)?;
        self.at += end + 1;
        Ok(rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]))
    }

    fn head(&mut self) -> Parsed<Message> {
        let line = String::from_utf8_lossy(self.line()?).into_owned();
        let mut words = line.splitn(3, ' ').map(str::to_owned);
        let line = [(); 3].map(|()| words.next().unwrap_or_default());
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let colon = line
                .iter()
                .position(|byte| *byte == b':')
                .ok_or(Tail::Malformed)?;
            let (name, value) = (&line[..colon], &line[colon + 1..]);
            let is_value = |byte: &u8| matches!(*byte, b'\t' | b' '..=0x7e | 0x80..);
            if name.is_empty() || !name.iter().all(is_token) || !value.iter().all(is_value) {
                return Err(Tail::Malformed);
            }
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            headers.push((name, value.trim_ascii().to_vec()));
        }
        Ok(Message {
            line,
            headers,
            body: Vec::new(),
            until_close: false,
        })
    }

    fn request(&mut self) -> Parsed<Message> {
        let mut message = self.head()?;
        let [method, target, version] = &message.line;
        let old = version == "HTTP/1.0";
        let sound = !method.is_empty() && method.bytes().all(|byte| is_token(&byte)) && !target.is_empty();
        if !sound || !(old || version == "HTTP/1.1") {
            return Err(Tail::Malformed);
        }
        let (chunked, length) = (message.is_chunked()?, message.length());
        message.body = if chunked && old {
            return Err(Tail::Malformed);
        } else if chunked {
            self.chunks()?
        } else {
            self.take(length?.unwrap_or(0))?.to_vec()
        };
        Ok(message)
    }

    fn answer(&mut self, method: &str) -> Parsed<Message> {
        let mut message = self.head()?;
        let [version, status, _] = &message.line;
        let three_digits = status.len() == 3 && status.bytes().all(|byte| byte.is_ascii_digit());
        if !(version == "HTTP/1.1" || version == "HTTP/1.0") || !three_digits {
            return Err(Tail::Malformed);
        }
        let status = message.status();
        if method == "HEAD" || (100..200).contains(&status) || [204, 304].contains(&status) {
            return Ok(message);
        }
        // A coding that does not end in chunks ends with the connection.
        let coded = message.first("transfer-encoding").is_some();
        if message.is_chunked() == Ok(true) {
            message.body = self.chunks()?;
        } else if let Some(length) = message.length()?.filter(|_| !coded) {
            message.body = self.take(length)?.to_vec();
        } else {
            message.until_close = true;
            message.body = self.take(self.bytes.len() - self.at)?.to_vec();
        }
        Ok(message)
    }

    fn take(&mut self, len: usize) -> Parsed<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..len).ok_or(Tail::Cut)?;
        self.at += len;
        Ok(taken)
    }

    fn chunks(&mut self) -> Parsed<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let size = self.chunk_size()?;
            if size == 0 {
                break;
            }
            body.extend_from_slice(self.take(size)?);
            if self.take(2)? != b"\r\n" {
                return Err(Tail::Malformed);
            }
        }
        // Trailers.
        while !self.line()?.is_empty() {}
        Ok(body)
    }

    fn chunk_size(&mut self) -> Parsed<usize> {
        let line = self.line()?;
        if !self.bytes[..self.at].ends_with(b"\r\n") {
            return Err(Tail::Malformed);
        }
        let size = line.split(|byte| *byte == b';').next().unwrap_or_default();
        let size = std::str::from_utf8(size.trim_ascii_end()).map_err(|_| Tail::Malformed)?;
        if size.is_empty() || !size.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Tail::Malformed);
        }
        usize::from_str_radix(size, 16).map_err(|_| Tail::Malformed)
    }
}

fn is_token(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)
}
