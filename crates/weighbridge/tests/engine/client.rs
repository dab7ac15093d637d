//! A small blocking HTTP client, and the engine process it talks to.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) fn binary() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weighbridge"))
}

/// Waits until `ready` gives a value.
pub(crate) fn eventually<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(start.elapsed() < DEADLINE, "still waiting for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// An engine process; killed when dropped.
pub(crate) struct EngineProcess {
    pub(crate) child: Child,
    pub(crate) address: String,
    _folder: tempfile::TempDir,
}

impl EngineProcess {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let child = binary()
            .args(["engine", "--listen", "127.0.0.1:0", "--ready-file"])
            .arg(&ready)
            .args(arguments)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let url = eventually("the ready file", || std::fs::read_to_string(&ready).ok());
        let address = url.trim().strip_prefix("http://").unwrap().to_owned();
        Self {
            child,
            address,
            _folder: folder,
        }
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &body.to_string())
    }

    pub(crate) fn send(&self, method: &str, path: &str, body: &str) -> Reply {
        self.open(method, path, body).finish()
    }

    /// Sends a request and reads the head of its answer.
    pub(crate) fn open(&self, method: &str, path: &str, body: &str) -> OpenReply {
        OpenReply::read_head(self.request(method, path, body))
    }

    /// Sends a request and reads nothing.
    pub(crate) fn request(&self, method: &str, path: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let (host, length) = (&self.address, body.len());
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
             connection: close\r\n\r\n{body}"
        )
        .unwrap();
        stream
    }

    /// The value of a metric, by its name and labels up to the value.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let page = self.get("/metrics").body;
        let line = page.lines().find(|line| {
            line.strip_prefix("vllm:")
                .and_then(|rest| rest.strip_prefix(name))
                .is_some_and(|rest| rest.starts_with('{'))
        });
        line.unwrap_or_else(|| panic!("no {name} in\n{page}"))
            .rsplit(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap()
    }
}

impl Drop for EngineProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer, whole.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {}", self.body))
    }

    /// The `data` of each event of a stream; the last one of OpenAI's, `[DONE]`, as a string.
    pub(crate) fn events(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).unwrap_or_else(|_| Value::from(data)))
            .collect()
    }
}

/// An answer whose body is still to come.
pub(crate) struct OpenReply {
    reader: BufReader<TcpStream>,
    reply: Reply,
}

impl OpenReply {
    fn read_head(stream: TcpStream) -> Self {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let status = line
            .split(' ')
            .nth(1)
            .unwrap_or_else(|| panic!("no status in {line:?}"))
            .parse()
            .unwrap();
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        Self {
            reader,
            reply: Reply {
                status,
                headers,
                body: String::new(),
            },
        }
    }

    /// Reads one chunk of the body; false at its end.
    pub(crate) fn chunk(&mut self) -> bool {
        let mut size = String::new();
        self.reader.read_line(&mut size).unwrap();
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        self.reader.read_exact(&mut chunk).unwrap();
        self.reply
            .body
            .push_str(std::str::from_utf8(&chunk[..size]).unwrap());
        size > 0
    }

    pub(crate) fn finish(mut self) -> Reply {
        if self.reply.header("transfer-encoding") == Some("chunked") {
            while self.chunk() {}
        } else {
            self.reader.read_to_string(&mut self.reply.body).unwrap();
        }
        self.reply
    }
}
