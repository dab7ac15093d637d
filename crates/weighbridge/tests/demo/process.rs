//! The demo as a process.

use rustix::process::{Pid, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use weighbridge_test_engine::harness::Signal;

const POLL: Duration = Duration::from_millis(5);
/// How long starting, or ending once told to, may take.
const PATIENCE: Duration = Duration::from_secs(40);

pub(crate) fn binary() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weighbridge"))
}

/// Killed when dropped.
pub(crate) struct Demo {
    child: Child,
    dir: TempDir,
    ready: Value,
}

impl Demo {
    /// Starts on free ports and waits until it serves.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let ports = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        Self::start_where_it_likes(&[&ports, arguments].concat())
    }

    /// Starts on the ports that it chooses by itself.
    pub(crate) fn start_where_it_likes(arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| Stdio::from(File::create(dir.path().join(name)).unwrap());
        let child = binary()
            .arg("demo")
            .args(arguments)
            .arg("--ready-file")
            .arg(dir.path().join("ready.json"))
            .env("XDG_STATE_HOME", dir.path())
            .stdin(Stdio::null())
            .stdout(file("stdout"))
            .stderr(file("stderr"))
            .spawn()
            .unwrap();
        let ready = Value::Null;
        let mut demo = Self { child, dir, ready };
        let deadline = Instant::now() + PATIENCE;
        while demo.ready.is_null() {
            let ended = demo.child.try_wait().unwrap();
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "it does not start: {}",
                demo.output()
            );
            std::thread::sleep(POLL);
            demo.ready = serde_json::from_str(&demo.read("ready.json")).unwrap_or_default();
        }
        demo
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.ready["listen"].as_str().unwrap())
    }

    pub(crate) fn admin_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.ready["admin"].as_str().unwrap())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.unwrap(), signal).unwrap();
    }

    /// Its exit code; none if it has not ended in time or died of a signal.
    pub(crate) fn wait_exit(&mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            if Instant::now() >= deadline {
                return None;
            }
            std::thread::sleep(POLL);
        }
    }

    pub(crate) fn stdout(&self) -> String {
        self.read("stdout")
    }

    pub(crate) fn stderr(&self) -> String {
        self.read("stderr")
    }

    pub(crate) fn output(&self) -> String {
        self.stdout() + &self.stderr()
    }

    /// What `--json` printed.
    pub(crate) fn summary(&self) -> Value {
        let said = self.stdout();
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("no JSON ({error}): {said}"))
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
