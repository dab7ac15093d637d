//! What policies are tried on: public traces, and generated traffic of the kinds that fleets see.
//!
//! Every workload has two slices. Yardsticks are tuned on the first; on the second nothing was tuned. Of a trace they are its two
//! halves, of a generated workload other seeds.

mod fan_out;
mod fleets;
mod traffic;

use fleets::Fleets;
use std::path::{Path, PathBuf};
use std::time::Duration;
use traffic::Traffic;
use weighbridge_sim::drive::{Fault, Setup};
use weighbridge_sim::workload::Workload;

/// Which part of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slice {
    /// Settings are chosen on it.
    Tuned,
    /// Nothing is chosen on it.
    Held,
}

impl Slice {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Tuned, Self::Held];

    /// What it is called in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tuned => "tuned on",
            Self::Held => "held out",
        }
    }
}

/// Traffic, engines and what goes wrong.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name in tables.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub about: &'static str,
    /// Whether prompts share long beginnings, so that it matters where their caches are.
    pub shared: bool,
    /// By how much its rates are multiplied.
    pub load: f64,
    /// Gateways that do not know of each other's requests.
    pub replicas: u32,
    traffic: Traffic,
    fleet: Fleets,
    trouble: Trouble,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    None,
    /// One engine of the first pool takes four times as long for everything.
    SlowEngine,
    /// One dies and comes back with an empty cache.
    Death,
    /// What all engines tell of themselves stands still for a minute, again and again.
    Stale,
}

/// Why a case cannot be tried.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// A file of the public data is not there, or cannot be read.
    #[error(
        "{path}: {why}; the traces are public (Mooncake FAST'25, Azure LLM inference 2023): put them into this folder, or name theirs in WEIGHBRIDGE_DATA"
    )]
    Data {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A description of traffic or engines is wrong: a bug of the lab.
    #[error("{0}")]
    Description(String),
}

/// What cases are made from: the folder of public data, and by how much everything is cut short.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The folder that holds `traces/`.
    pub data: PathBuf,
    /// 1: all of it; 4: a quarter of the time.
    pub cut: u32,
}

impl Bench {
    /// All of it, from the folder that `WEIGHBRIDGE_DATA` names, else from `fallback`.
    #[must_use]
    pub fn whole(fallback: &Path) -> Self {
        let data = std::env::var_os("WEIGHBRIDGE_DATA").map_or_else(|| fallback.to_owned(), PathBuf::from);
        Self { data, cut: 1 }
    }
}

const AGENTS: Traffic = Traffic::Generated(include_str!("../workloads/agents.json"));
const DOCUMENTS: Traffic = Traffic::Generated(include_str!("../workloads/documents.json"));
const SYSTEM_PROMPTS: Traffic = Traffic::Generated(include_str!("../workloads/system-prompts.json"));

/// All cases.
#[must_use]
pub fn cases() -> Vec<Case> {
    [published(), generated(), troubled(), gateways()].concat()
}

/// Work that nobody waits for, from clients that send the next request when one is answered: what counts is how soon all of it is
/// done, so it is none of the [`cases`], which are judged by times to the first token.
#[must_use]
pub fn closed_loop() -> Case {
    case(
        "closed loop",
        "512 workers who send 8 prompts of some 3,000 tokens each, the next when the last is answered",
        Traffic::Generated(include_str!("../workloads/closed-loop.json")),
        Fleets::Eight,
    )
}

fn case(name: &'static str, about: &'static str, traffic: Traffic, fleet: Fleets) -> Case {
    Case {
        name,
        about,
        shared: true,
        load: 1.0,
        replicas: 1,
        traffic,
        fleet,
        trouble: Trouble::None,
    }
}

/// Traces and benchmarks that others have published.
fn published() -> Vec<Case> {
    vec![
        case(
            "mooncake",
            "Mooncake's conversation trace at 1.6 times its speed; prompts of 12,000 tokens, a third of which extend earlier ones",
            Traffic::Mooncake { speed: 1.6 },
            Fleets::Eight,
        ),
        Case {
            shared: false,
            ..case(
                "azure",
                "Azure's conversation trace at 12 times its speed; short prompts, nothing known to be shared",
                Traffic::Azure { speed: 12.0 },
                Fleets::Eight,
            )
        },
        case(
            "llm-d 37",
            "llm-d's benchmark: 83 shared prefixes of 8,000 tokens at 3 to 20 requests/s on four engines of four GPUs",
            Traffic::PrefixGroups,
            Fleets::FourLarge,
        ),
    ]
}

/// Traffic of one's own, on engines that are alike and well.
fn generated() -> Vec<Case> {
    vec![
        case(
            "agents",
            "sessions of some 16 turns, seconds apart, whose prompts grow to 100,000 tokens",
            AGENTS,
            Fleets::Eight,
        ),
        case(
            "chat and batch",
            "conversations that must start within a second beside prompts of 8,000 tokens that may take 30",
            Traffic::Generated(include_str!("../workloads/chat-batch.json")),
            Fleets::Eight,
        ),
        case(
            "system prompts",
            "240 system prompts of some 6,000 tokens, short questions",
            SYSTEM_PROMPTS,
            Fleets::Eight,
        ),
    ]
}

/// Engines that differ, die or tell nothing new, and traffic that comes in bursts.
fn troubled() -> Vec<Case> {
    vec![
        Case {
            trouble: Trouble::SlowEngine,
            load: 0.65,
            ..case(
                "a slow engine",
                "tasks that are handed to 4 to 16 workers at once, each with its material; one engine of eight takes four times as long",
                Traffic::FanOut,
                Fleets::Eight,
            )
        },
        Case {
            load: 0.35,
            ..case(
                "two GPU types",
                "tasks that are handed to 4 to 16 workers at once, on four A100 and two H100",
                Traffic::FanOut,
                Fleets::TwoTypes,
            )
        },
        case(
            "bursts",
            "conversations on 40 system prompts, four times as many of them for 20 s of every two minutes",
            Traffic::Generated(include_str!("../workloads/bursts.json")),
            Fleets::Eight,
        ),
        Case {
            trouble: Trouble::Death,
            ..case(
                "an engine dies",
                "sessions of agents; one engine of eight is gone for a minute and comes back with an empty cache",
                AGENTS,
                Fleets::Eight,
            )
        },
        Case {
            trouble: Trouble::Stale,
            ..case(
                "stale metrics",
                "questions about 300 documents; what engines tell stands still for half of the time",
                DOCUMENTS,
                Fleets::Eight,
            )
        },
    ]
}

/// Several gateways before the same engines.
fn gateways() -> Vec<Case> {
    vec![
        Case {
            replicas: 2,
            ..case(
                "2 gateways",
                "240 system prompts, through two gateways that do not know of each other's requests",
                SYSTEM_PROMPTS,
                Fleets::Eight,
            )
        },
        Case {
            replicas: 8,
            ..case(
                "8 gateways",
                "240 system prompts, through eight gateways that do not know of each other's requests",
                SYSTEM_PROMPTS,
                Fleets::Eight,
            )
        },
    ]
}

impl Case {
    /// The same at so many times its load.
    #[must_use]
    pub fn at(&self, load: f64) -> Self {
        Self {
            load: self.load * load,
            ..self.clone()
        }
    }

    /// The requests of a slice; of a trace, the seed spreads what has one time.
    ///
    /// # Errors
    /// The data is not there.
    pub fn workload(&self, bench: &Bench, (slice, seed): (Slice, u64)) -> Result<Workload, CaseError> {
        self.traffic.workload((bench, self.load), (slice, seed))
    }

    /// The fleet, with what goes wrong while `workload` runs; its one route has no policies yet.
    ///
    /// # Errors
    /// A bug of the lab.
    pub fn setup(&self, workload: &Workload, seed: u64) -> Result<Setup, CaseError> {
        let last = workload.requests.iter().filter(|request| request.after.is_none());
        let end = last.map(|request| request.at).max().unwrap_or(Duration::ZERO);
        let mut setup = self.fleet.setup()?;
        setup.faults = self.trouble.faults(&setup, end);
        setup.replicas = self.replicas;
        setup.seed = seed;
        Ok(setup)
    }
}

impl Trouble {
    fn faults(self, setup: &Setup, end: Duration) -> Vec<Fault> {
        fleets::faults(self, setup, end)
    }
}
