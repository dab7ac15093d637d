//! What the gateway runs on: the config of the user's file, with the endpoints that sources name.

use super::status::Status;
use super::watch::{Look, Watch};
use super::{Bell, Set, SourceShown};
use crate::gateway::Gateway;
use crate::snapshot::Carried;
use crate::upstream::own::Own;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};
use weighbridge_config::Config;
use weighbridge_config::discovery::{Discovered, Discovery};

/// Longest wait for the first answers of sources, at the start and in a reload that names new ones.
const FIRST_WAIT: Duration = Duration::from_secs(2);
/// Most names of endpoints in one line of the log.
const LOGGED_MAX: usize = 20;

/// Watches that are to be started.
pub(crate) type WatchQueue = mpsc::UnboundedReceiver<Watch>;

/// The one owner of the config and of what sources say.
pub(crate) struct Fleet {
    state: Mutex<State>,
    /// A source has delivered its first set.
    answered: Condvar,
    /// Some set is newer than what the gateway runs on.
    pub(super) changed: Notify,
    watches: mpsc::UnboundedSender<Watch>,
    /// Where the gateway itself listens, which no endpoint can be.
    pub(crate) own: Own,
}

struct State {
    /// As the file says it.
    declared: Arc<Config>,
    /// By pool.
    sources: BTreeMap<Arc<str>, Source>,
    /// Sources of a config that is about to be taken.
    coming: BTreeMap<Arc<str>, Source>,
    next_id: u64,
}

#[derive(Clone)]
struct Source {
    /// Tells its watch from those of sources that were there before.
    id: u64,
    discovery: Discovery,
    /// None: it has not answered yet.
    found: Option<Set>,
    status: Status,
    bell: Bell,
}

impl Source {
    /// Whether its first answer may come any moment. A file that is not there yet is not waited for.
    fn waits(&self) -> bool {
        self.found.is_none() && matches!(self.discovery, Discovery::Dns(_))
    }
}

impl Fleet {
    /// The fleet of `config`; its watches wait in the queue.
    pub(crate) fn new(config: Arc<Config>) -> (Self, WatchQueue) {
        let (watches, queue) = mpsc::unbounded_channel();
        let fleet = Self {
            state: Mutex::new(State {
                declared: config.clone(),
                sources: BTreeMap::new(),
                coming: BTreeMap::new(),
                next_id: 0,
            }),
            answered: Condvar::new(),
            changed: Notify::new(),
            watches,
            own: Own::default(),
        };
        let mut state = fleet.lock();
        state.sources = fleet.sources_of(&config, &mut state);
        drop(state);
        (fleet, queue)
    }

    /// What the first snapshot takes over.
    pub(crate) fn carried(&self) -> Carried {
        Carried {
            previous: None,
            bells: self.lock().bells(),
            own: self.own.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sources of `config`: those that are there already stay as they are, new ones are watched from now on.
    fn sources_of(&self, config: &Config, state: &mut State) -> BTreeMap<Arc<str>, Source> {
        let mut sources = BTreeMap::new();
        for (index, pool) in config.pools.iter().enumerate() {
            let Some(discovery) = &pool.discovery else {
                continue;
            };
            let before = state.sources.get(&pool.name);
            if let Some(same) = before.filter(|source| source.discovery == *discovery) {
                sources.insert(pool.name.clone(), same.clone());
                continue;
            }
            let known = before.filter(|source| source.discovery.asks_the_same(discovery));
            let read = matches!(discovery, Discovery::File(_)).then(|| config.endpoints_of(index).into());
            state.next_id += 1;
            let source = Source {
                id: state.next_id,
                discovery: discovery.clone(),
                found: known.and_then(|source| source.found.clone()).or(read),
                status: known.map(|source| source.status.clone()).unwrap_or_default(),
                bell: Bell::default(),
            };
            // The receiver lives as long as the keeper; a gateway that is only asked questions has none.
            let _ = self.watches.send(Watch {
                pool: pool.name.clone(),
                id: source.id,
                discovery: source.discovery.clone(),
                bell: source.bell.clone(),
            });
            sources.insert(pool.name.clone(), source);
        }
        sources
    }

    /// How every source is doing, by pool.
    pub(crate) fn shown(&self) -> BTreeMap<Arc<str>, SourceShown> {
        let state = self.lock();
        let shown = state.sources.iter().map(|(pool, source)| {
            let count = source.found.as_ref().map_or(0, |found| found.len());
            (pool.clone(), source.status.shown(&source.discovery, count))
        });
        shown.collect()
    }

    /// Takes what a look at a source gave. False: nobody wants to know any more.
    pub(super) fn deliver(&self, watch: &Watch, look: Look) -> bool {
        let mut state = self.lock();
        let State { sources, coming, .. } = &mut *state;
        let known = [sources, coming]
            .into_iter()
            .filter_map(|sources| sources.get_mut(&watch.pool))
            .find(|source| source.id == watch.id);
        let Some(source) = known else { return false };
        source.status.note(&watch.pool, &source.discovery, &look);
        if let Some(found) = look.found {
            if source.found.as_deref() != Some(&*found) {
                source.found = Some(found);
                source.status.changed();
                self.changed.notify_one();
            }
            self.answered.notify_all();
        }
        true
    }

    /// Whether anybody wants to know what a watch sees.
    pub(super) fn wants(&self, watch: &Watch) -> bool {
        let state = self.lock();
        [&state.sources, &state.coming]
            .into_iter()
            .filter_map(|sources| sources.get(&watch.pool))
            .any(|source| source.id == watch.id)
    }

    /// Waits for a bounded time until `waits` no longer holds.
    fn first_answers(&self, waits: fn(&State) -> bool) {
        let deadline = Instant::now() + FIRST_WAIT;
        let mut state = self.lock();
        while waits(&state) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let woken = self.answered.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl State {
    /// The declared config with what sources name.
    fn effective(&self) -> Config {
        let mut config = (*self.declared).clone();
        let listens = [Some(config.server.listen), config.admin.listen];
        for index in 0..config.pools.len() {
            let source = self.sources.get(&config.pools[index].name);
            let Some(found) = source.and_then(|source| source.found.as_ref()) else {
                continue;
            };
            // Requests to the gateway itself would go in circles until no connection is left.
            let own = |found: &&Discovered| {
                let mut listens = listens.iter().flatten();
                listens.any(|listen| found.endpoint.reaches(*listen))
            };
            let others: Vec<_> = found.iter().filter(|found| !own(found)).cloned().collect();
            if others.len() < found.len() {
                tracing::warn!(
                    pool = %config.pools[index].name,
                    "discovery names the gateway's own address, which is left out"
                );
            }
            config.set_endpoints(index, &others);
        }
        config
    }

    fn bells(&self) -> BTreeMap<Arc<str>, Bell> {
        let bells = self.sources.iter();
        bells
            .map(|(pool, source)| (pool.clone(), source.bell.clone()))
            .collect()
    }
}

impl Gateway {
    /// Takes a new config: new requests see it, running ones keep theirs. Waits a moment for sources that it names first.
    ///
    /// # Errors
    /// What could not be loaded; nothing has changed then.
    pub(crate) fn reconfigure(&self, config: Config) -> Result<(), String> {
        let fleet = &self.fleet;
        let mut state = fleet.lock();
        state.coming = fleet.sources_of(&config, &mut state);
        drop(state);
        // A source that is watched already has had its time.
        fleet.first_answers(|state| {
            let is_new = |(pool, source): &(&Arc<str>, &Source)| {
                let running = state.sources.get(*pool);
                running.is_none_or(|running| running.id != source.id)
            };
            let mut new = state.coming.iter().filter(is_new);
            new.any(|(_, source)| source.waits())
        });
        let mut state = fleet.lock();
        let sources = std::mem::take(&mut state.coming);
        let before = (state.declared.clone(), state.sources.clone());
        state.declared = Arc::new(config);
        // What a source that stays has said since stands where it always stood.
        let newest = |(pool, source): (Arc<str>, Source)| match before.1.get(&pool) {
            Some(running) if running.id == source.id => (pool, running.clone()),
            _ => (pool, source),
        };
        state.sources = sources.into_iter().map(newest).collect();
        let carried = Carried {
            previous: None,
            bells: state.bells(),
            own: fleet.own.clone(),
        };
        let taken = self.install(state.effective(), &carried);
        if taken.is_err() {
            (state.declared, state.sources) = before;
        }
        taken
    }

    /// Waits a bounded time for the first answers of all sources and takes them.
    pub(crate) fn await_sources(&self) {
        self.fleet
            .first_answers(|state| state.sources.values().any(Source::waits));
        self.take_found();
    }

    /// Takes the newest sets of all sources, if they differ from what is running.
    pub(super) fn take_found(&self) {
        // Held throughout: a reload in between would be undone.
        let fleet = &self.fleet;
        let state = fleet.lock();
        let config = state.effective();
        let running = self.snapshot_full();
        let changes = changes(&running.config, &config);
        if changes.is_empty() {
            return;
        }
        let before = running.config.labels_missing();
        let missing: Vec<_> = config.labels_missing().difference(&before).cloned().collect();
        let carried = Carried {
            previous: Some(running),
            bells: state.bells(),
            own: fleet.own.clone(),
        };
        match self.install(config, &carried) {
            Ok(()) => {
                changes.iter().for_each(Change::log);
                for (route, label) in missing {
                    tracing::warn!(
                        %route, %label,
                        "filters of the route ask for a label that none of its discovered endpoints has"
                    );
                }
            }
            Err(error) => tracing::error!(%error, "discovered endpoints cannot be taken"),
        }
    }
}

/// What becomes different in one pool.
struct Change {
    pool: Arc<str>,
    added: Vec<Arc<str>>,
    removed: Vec<Arc<str>>,
    /// Endpoints after the change.
    count: usize,
}

fn changes(old: &Config, new: &Config) -> Vec<Change> {
    let mut changes = Vec::new();
    for (index, pool) in new.pools.iter().enumerate() {
        let (before, after) = (old.endpoints_of(index), new.endpoints_of(index));
        if before == after {
            continue;
        }
        let lacks = |these: &[Discovered], those: &[Discovered]| -> Vec<Arc<str>> {
            let identity = |found: &Discovered| (found.spec.name.clone(), found.spec.address.clone());
            let known: BTreeSet<_> = these.iter().map(identity).collect();
            let missing = those.iter().filter(|found| !known.contains(&identity(found)));
            missing.map(|found| found.spec.name.clone()).collect()
        };
        changes.push(Change {
            pool: pool.name.clone(),
            added: lacks(&before, &after),
            removed: lacks(&after, &before),
            count: after.len(),
        });
    }
    changes
}

impl Change {
    fn log(&self) {
        let Self {
            pool,
            added,
            removed,
            count,
        } = self;
        tracing::info!(
            %pool, endpoints = count, added = listed(added).map(tracing::field::display), removed = listed(removed).map(tracing::field::display),
            "discovered endpoints changed"
        );
    }
}

/// None where there is none.
fn listed(names: &[Arc<str>]) -> Option<String> {
    if names.is_empty() {
        return None;
    }
    let mut text = names[..names.len().min(LOGGED_MAX)].join(", ");
    if names.len() > LOGGED_MAX {
        text += &format!(" and {} more", names.len() - LOGGED_MAX);
    }
    Some(text)
}
