//! Processes that this program starts, and what the system knows of them.

use crate::failure::{Failure, failed};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(20);
/// From the start to being ready; callgrind takes its time.
const START_WITHIN: Duration = Duration::from_secs(60);
/// From the signal to end to the one that cannot be refused.
const END_WITHIN: Duration = Duration::from_secs(20);

/// A process that ends, at the latest, when this is dropped.
pub(crate) struct Owned {
    name: String,
    child: Child,
}

/// Starts the gateway, which `command` runs, with one worker on the file `config`, its other files in `dir`; gives it and
/// where it listens.
pub(crate) fn gateway(mut command: Command, config: &Path, dir: &Path) -> Result<(Owned, String), Failure> {
    let (ready, stderr) = (dir.join("ready.json"), dir.join("stderr"));
    command
        .args(["serve", "--workers", "1", "--config"])
        .arg(config)
        .arg("--ready-file")
        .arg(&ready)
        .stderr(fs::File::create(&stderr).map_err(failed(stderr.display()))?);
    let mut process = Owned::start("the gateway", &mut command)?;
    process.wait_ready(|| ready.exists(), &stderr)?;
    let text = fs::read_to_string(&ready).map_err(failed(ready.display()))?;
    let ready: serde_json::Value = serde_json::from_str(&text).map_err(failed("the ready file"))?;
    Ok((process, ready["listen"].as_str().unwrap_or_default().to_owned()))
}

impl Owned {
    /// Starts `command`.
    pub(crate) fn start(name: &str, command: &mut Command) -> Result<Self, Failure> {
        let child = command
            .stdin(Stdio::null())
            .spawn()
            .map_err(failed(format!("{name} cannot be started")))?;
        Ok(Self {
            name: name.to_owned(),
            child,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The first line of its standard output, which must be a pipe.
    pub(crate) fn first_line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        if let Some(out) = &mut self.child.stdout {
            BufReader::new(out)
                .read_line(&mut line)
                .map_err(failed(format!("{} said nothing", self.name)))?;
        }
        Ok(line.trim().to_owned())
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>, Failure> {
        self.child
            .try_wait()
            .map_err(failed(format!("waiting for {}", self.name)))
    }

    /// Waits for its end at most `within`, calling `meanwhile` now and then; none: it still runs.
    pub(crate) fn wait(
        &mut self,
        within: Duration,
        mut meanwhile: impl FnMut(),
    ) -> Result<Option<ExitStatus>, Failure> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.ended()? {
                return Ok(Some(status));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            meanwhile();
            std::thread::sleep(POLL);
        }
    }

    /// Waits until `ready` holds; where it never does, the failure quotes what stands in the file `output`.
    pub(crate) fn wait_ready(&mut self, ready: impl Fn() -> bool, output: &Path) -> Result<(), Failure> {
        let deadline = Instant::now() + START_WITHIN;
        let why = loop {
            if ready() {
                return Ok(());
            }
            if let Some(status) = self.ended()? {
                break format!("ended before it was ready: {status}");
            }
            if Instant::now() >= deadline {
                break format!("was not ready within {START_WITHIN:?}");
            }
            std::thread::sleep(POLL);
        };
        let said = fs::read_to_string(output).unwrap_or_default();
        Err(Failure::Failed(format!("{} {why}\n{said}", self.name)))
    }

    /// Asks it to end and waits for that; kills it if it does not.
    pub(crate) fn stop(&mut self) -> Result<ExitStatus, Failure> {
        if self.ended()?.is_none()
            && let Some(pid) = i32::try_from(self.pid()).ok().and_then(Pid::from_raw)
        {
            let _ = kill_process(pid, Signal::TERM);
        }
        if let Some(status) = self.wait(END_WITHIN, || ())? {
            return Ok(status);
        }
        let _ = self.child.kill();
        self.child
            .wait()
            .map_err(failed(format!("waiting for {}", self.name)))
    }

    /// What its standard output holds, which must be a pipe, once it has ended.
    pub(crate) fn output(&mut self) -> Result<String, Failure> {
        let Some(out) = self.child.stdout.take() else {
            return Ok(String::new());
        };
        std::io::read_to_string(out).map_err(failed(format!("reading from {}", self.name)))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

/// `pid`, its children, theirs and so on.
pub(crate) fn with_descendants(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let parents: Vec<(u32, u32)> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|child| Some((child, parent(child)?)))
        .collect();
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(&member) = family.get(next) {
        family.extend(
            parents
                .iter()
                .filter(|(_, parent)| *parent == member)
                .map(|(child, _)| *child),
        );
        next += 1;
    }
    family
}

/// The second field after the name, which stands in parentheses and may hold anything.
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(1)?.parse().ok()
}

/// Time that the threads of `pids` have spent on a core so far, user and system.
pub(crate) fn cpu_time(pids: &[u32]) -> Result<Duration, Failure> {
    let mut nanos = 0;
    for pid in pids {
        let tasks =
            fs::read_dir(format!("/proc/{pid}/task")).map_err(failed(format!("process {pid} has ended")))?;
        for task in tasks.flatten() {
            let Ok(text) = fs::read_to_string(task.path().join("schedstat")) else {
                continue;
            };
            let running = text
                .split_whitespace()
                .next()
                .and_then(|field| field.parse().ok());
            nanos += running.unwrap_or(0);
        }
    }
    if nanos == 0 {
        return Err(Failure::BadInput(
            "/proc/PID/task/*/schedstat counts nothing here: the kernel needs CONFIG_SCHED_INFO".into(),
        ));
    }
    Ok(Duration::from_nanos(nanos))
}

/// Memory in use by `pids`, MiB.
pub(crate) fn rss_mib(pids: &[u32]) -> f64 {
    let kib = pids.iter().filter_map(|pid| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    });
    kib.sum::<f64>() / 1024.0
}

/// How many files a process of ours may open.
pub(crate) fn open_files_max() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.unwrap_or(u64::MAX)
}

/// The load averages of the last 1, 5 and 15 minutes.
pub(crate) fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}
