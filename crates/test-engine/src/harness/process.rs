//! The gateway as a process.

use super::config::{ADMIN_TOKEN, admin_token, complete};
use super::metrics::Metrics;
use crate::client::{Request, Response};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const START_WITHIN: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(5);

/// How a gateway starts.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// The program, as a rule `env!("CARGO_BIN_EXE_weighbridge")`.
    pub binary: PathBuf,
    /// The configuration. `server.listen`, `admin` and `auth: none` are added if they are not there. Without one
    /// the gateway is started without `--config`, and finds engines by itself.
    pub yaml: Option<String>,
    /// Further arguments, after those of the harness.
    pub args: Vec<String>,
    /// Further environment.
    pub env: Vec<(String, String)>,
}

impl GatewayOptions {
    /// A gateway with this configuration and nothing more.
    pub fn new(binary: &Path, yaml: &str) -> GatewayOptions {
        GatewayOptions {
            binary: binary.to_owned(),
            yaml: Some(yaml.to_owned()),
            args: Vec::new(),
            env: Vec::new(),
        }
    }
}

/// A gateway that did not start.
#[derive(Clone, Debug)]
pub struct StartFailure {
    /// Exit code; `None` if it was killed because it was not ready in time, or died of a signal.
    pub code: Option<i32>,
    /// What it wrote, stdout first.
    pub output: String,
}

/// A running gateway with its directory of configuration and output. Dropping it kills it.
pub struct Gateway {
    child: Child,
    dir: TempDir,
    listen: String,
    admin: String,
    token: String,
    /// Set once the process has been waited for: its id may then belong to another process.
    ended: bool,
}

impl Gateway {
    /// Starts `<binary> serve` on a configuration and waits until it is ready.
    ///
    /// # Panics
    /// If it ends or is not ready within 20 s; the message holds its output.
    pub fn start(binary: &Path, yaml: &str) -> Gateway {
        Gateway::start_with(&GatewayOptions::new(binary, yaml))
    }

    /// As [`Gateway::start`], with options.
    ///
    /// # Panics
    /// If it ends or is not ready within 20 s; the message holds its output.
    pub fn start_with(options: &GatewayOptions) -> Gateway {
        Gateway::try_start(options).unwrap_or_else(|f| {
            panic!(
                "the gateway did not start (exit code {:?}):\n{}",
                f.code, f.output
            )
        })
    }

    /// As [`Gateway::start_with`], for gateways that are not meant to start.
    ///
    /// # Errors
    /// When it ends or is not ready within 20 s.
    pub fn try_start(options: &GatewayOptions) -> Result<Gateway, StartFailure> {
        let dir = tempfile::Builder::new()
            .prefix("weighbridge-test-")
            .tempdir()
            .expect("a temporary directory");
        let config = dir.path().join("weighbridge.yaml");
        let mut command = Command::new(&options.binary);
        command.arg("serve");
        let mut token = ADMIN_TOKEN.to_owned();
        if let Some(yaml) = options.yaml.as_deref().map(complete) {
            fs::write(&config, &yaml).expect("the configuration can be written");
            command.arg("--config").arg(config);
            token = admin_token(&yaml).unwrap_or(token);
        }
        let create = |name: &str| Stdio::from(File::create(dir.path().join(name)).expect("an output file"));
        let child = command
            .arg("--ready-file")
            .arg(dir.path().join("ready.json"))
            .args(&options.args)
            .envs(options.env.iter().map(|(k, v)| (k, v)))
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(create("stdout"))
            .stderr(create("stderr"))
            .spawn()
            .unwrap_or_else(|e| panic!("cannot run {}: {e}", options.binary.display()));
        let (listen, admin) = (String::new(), String::new());
        let mut gateway = Gateway {
            child,
            dir,
            listen,
            admin,
            token,
            ended: false,
        };
        gateway.wait_ready()?;
        Ok(gateway)
    }

    fn wait_ready(&mut self) -> Result<(), StartFailure> {
        let deadline = Instant::now() + START_WITHIN;
        while !self.read_ready() {
            let ended = self.wait_exit(POLL);
            if ended.is_some() || self.has_ended() || Instant::now() >= deadline {
                return Err(StartFailure {
                    code: ended,
                    output: self.output(),
                });
            }
        }
        Ok(())
    }

    /// Reads the ready file; false if it is not there or not complete yet.
    fn read_ready(&mut self) -> bool {
        let Ok(text) = fs::read_to_string(self.dir.path().join("ready.json")) else {
            return false;
        };
        let Ok(ready) = serde_json::from_str::<Value>(&text) else {
            return false;
        };
        let Some(listen) = ready["listen"].as_str() else {
            return false;
        };
        listen.clone_into(&mut self.listen);
        ready["admin"]
            .as_str()
            .unwrap_or_default()
            .clone_into(&mut self.admin);
        ready["pid"].as_u64() == Some(u64::from(self.child.id()))
    }

    /// `http://HOST:PORT` of the data plane, with a path after it.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.listen)
    }

    /// `http://HOST:PORT` of the admin listener, with a path after it.
    pub fn admin_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.admin)
    }

    /// The token for the admin API.
    pub fn admin_token(&self) -> &str {
        &self.token
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Directory of the configuration file; the process runs in it.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The configuration file.
    pub fn config_path(&self) -> PathBuf {
        self.dir.path().join("weighbridge.yaml")
    }

    /// Puts a new configuration in place of the old one in one step, completed as at the start.
    pub fn write_config(&self, yaml: &str) {
        let new = self.dir.path().join("weighbridge.yaml.new");
        fs::write(&new, complete(yaml)).expect("the configuration can be written");
        fs::rename(new, self.config_path()).expect("the configuration can be replaced");
    }

    /// Asks the gateway to drain and end.
    pub fn sigterm(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if !self.ended {
            let _ = kill_process(pid.expect("a process id"), signal);
        }
    }

    /// Waits for the process to end: its exit code, or `None` if it has not ended in time or died of a signal.
    pub fn wait_exit(&mut self, within: Duration) -> Option<i32> {
        let deadline = Instant::now() + within;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                self.ended = true;
                return status.code();
            }
            if Instant::now() >= deadline {
                return None;
            }
            std::thread::sleep(POLL);
        }
    }

    /// True if the process has ended, of itself or of a signal.
    pub fn has_ended(&mut self) -> bool {
        self.ended |= !matches!(self.child.try_wait(), Ok(None));
        self.ended
    }

    /// What it has written to stdout.
    pub fn stdout(&self) -> String {
        self.read("stdout")
    }

    /// What it has written to stderr.
    pub fn stderr(&self) -> String {
        self.read("stderr")
    }

    /// Everything it has written, stdout first.
    pub fn output(&self) -> String {
        self.stdout() + &self.stderr()
    }

    fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.dir.path().join(name)).unwrap_or_default()).into_owned()
    }

    /// The request log so far: the lines of stdout that are JSON objects.
    pub fn log_lines(&self) -> Vec<Value> {
        self.stdout()
            .lines()
            .filter_map(|l| serde_json::from_str(l).ok())
            .filter(Value::is_object)
            .collect()
    }

    /// Waits until a line of the request log satisfies `wanted`, and gives it.
    ///
    /// # Panics
    /// If there is none within the time.
    pub fn wait_log(&self, within: Duration, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + within;
        loop {
            let lines = self.log_lines();
            if let Some(line) = lines.iter().find(|l| wanted(l)) {
                return line.clone();
            }
            assert!(
                Instant::now() < deadline,
                "no such line in the request log within {within:?}: {lines:#?}"
            );
            std::thread::sleep(POLL);
        }
    }

    /// Scrapes the metrics.
    ///
    /// # Panics
    /// If the gateway does not give them.
    pub fn metrics(&self) -> Metrics {
        let response = self.admin_request("GET", "/metrics").send();
        assert_eq!(response.status, 200, "/metrics: {}", response.text());
        Metrics::parse(&response.text())
    }

    /// Gets a path of the admin API as JSON.
    ///
    /// # Panics
    /// If the answer is not status 200 with JSON.
    pub fn api(&self, path: &str) -> Value {
        let response = self.admin_request("GET", path).send();
        assert_eq!(response.status, 200, "{path}: {}", response.text());
        response.json()
    }

    /// Sends JSON to a path of the admin API and gives the answer, whatever its status.
    ///
    /// # Panics
    /// If there is no whole answer.
    pub fn api_send(&self, method: &str, path: &str, body: &Value) -> Response {
        self.admin_request(method, path).body(body.to_string()).send()
    }

    fn admin_request(&self, method: &str, path: &str) -> Request {
        let bearer = format!("Bearer {}", self.token);
        Request::new(method, &self.admin_url(path)).header("authorization", &bearer)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!(
                "output of the gateway (process {}):\n{}",
                self.child.id(),
                self.output()
            );
        }
    }
}
