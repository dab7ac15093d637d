//! Endpoints from DNS.
//!
//! Answers are kept here and not in the resolver, so that a look always asks. What one question gave last stays in force
//! while the question fails, each on its own: a resolver that never answers for AAAA takes nothing from the A records.

mod ask;

use super::watch::Look;
use ask::{Answer, Asker, Question};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use weighbridge_config::discovery::{Discovered, Dns, ENDPOINTS_MAX, Records};
use weighbridge_core::spec::Weight;

/// Questions about targets of services that are asked at once.
const AT_ONCE: usize = 16;
/// Part of weight 1 that a service of weight 0 has beside others that have one: RFC 2782 wants "a very small chance".
const ALMOST_NOTHING: u64 = 10_000;

/// Looks one name up.
pub(super) struct Looker {
    dns: Dns,
    /// Newest addresses of every name, by family.
    addresses: BTreeMap<(String, Question), BTreeSet<IpAddr>>,
    /// Since when the answer has been that there are none.
    empty_since: Option<Instant>,
    /// Looks that failed in a row.
    failures: u32,
}

/// What the answers to all questions of a look come to.
#[derive(Default)]
struct Sum {
    found: Vec<Discovered>,
    /// Shortest time to live; none: no question was answered with records.
    ttl: Option<Duration>,
    errors: BTreeSet<String>,
}

impl Sum {
    fn lives(&mut self, ttl: Duration) {
        self.ttl = Some(self.ttl.map_or(ttl, |known| known.min(ttl)));
    }
}

impl Looker {
    pub(super) fn new(dns: Dns) -> Self {
        Self {
            dns,
            addresses: BTreeMap::new(),
            empty_since: None,
            failures: 0,
        }
    }

    pub(super) async fn look(&mut self) -> Look {
        let sum = match Asker::new(&self.dns.resolver) {
            Ok(asker) => match self.dns.records {
                Records::Address { port } => self.by_address(&asker, port).await,
                Records::Service => self.by_service(Arc::new(asker)).await,
            },
            Err(error) => Sum {
                errors: [error].into(),
                ..Sum::default()
            },
        };
        self.conclude(sum, Instant::now())
    }

    /// What is to be told of a look.
    fn conclude(&mut self, mut sum: Sum, now: Instant) -> Look {
        if sum.found.len() > ENDPOINTS_MAX {
            let count = sum.found.len();
            sum.errors = [format!("it names {count} endpoints, more than {ENDPOINTS_MAX}")].into();
            sum.found.clear();
        }
        let empty = sum.found.is_empty() && sum.errors.is_empty();
        let since = *self.empty_since.get_or_insert(now);
        if !empty {
            self.empty_since = None;
        }
        let believed = empty && now.duration_since(since) >= self.dns.empty_after;
        if empty && !believed {
            let patience = self.dns.empty_after.as_secs();
            sum.errors.insert(format!(
                "it has no endpoint; the pool is emptied if that stays so for {patience} s (empty_after)"
            ));
        }
        let answered = (!sum.found.is_empty() && sum.ttl.is_some()) || believed;
        self.failures = if answered {
            0
        } else {
            self.failures.saturating_add(1)
        };
        let again = if answered {
            sum.ttl.unwrap_or(self.dns.ttl_max)
        } else {
            self.dns.ttl_min * 2_u32.saturating_pow((self.failures - 1).min(10))
        };
        sum.found.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        Look {
            answered,
            found: answered.then(|| sum.found.into()),
            error: (!sum.errors.is_empty()).then(|| sum.errors.into_iter().collect::<Vec<_>>().join("; ")),
            again: again.clamp(self.dns.ttl_min, self.dns.ttl_max),
        }
    }

    async fn by_address(&mut self, asker: &Asker, port: u16) -> Sum {
        let mut sum = Sum::default();
        let name = self.dns.name.clone();
        let answers = both(asker, &name).await;
        for address in self.take(&name, answers, &mut sum) {
            sum.found
                .push(self.dns.at_address(SocketAddr::new(address, port)));
        }
        sum
    }

    /// Takes the answers about the addresses of `name`: what is known of them now.
    fn take(&mut self, name: &str, answers: Answers, sum: &mut Sum) -> BTreeSet<IpAddr> {
        let mut all = BTreeSet::new();
        for (question, answer) in answers {
            let known = self.addresses.entry((name.to_owned(), question)).or_default();
            match answer {
                Answer::Records(records, ttl) => {
                    *known = records;
                    sum.lives(ttl);
                }
                Answer::Nothing => known.clear(),
                Answer::Failed(error) => {
                    sum.errors.insert(error);
                }
            }
            all.extend(known.iter().copied());
        }
        all
    }

    async fn by_service(&mut self, asker: Arc<Asker>) -> Sum {
        let mut sum = Sum::default();
        let service = match asker.services(&self.dns.name).await {
            Ok(service) => service,
            Err(error) => {
                sum.errors.insert(error);
                return sum;
            }
        };
        let Some(first) = service.records.iter().map(|record| record.priority).min() else {
            return sum;
        };
        sum.lives(service.ttl);
        let mut weights: BTreeMap<(String, u16), u64> = BTreeMap::new();
        for record in service.records.iter().filter(|record| record.priority == first) {
            let place = (record.target.clone(), record.port);
            *weights.entry(place).or_default() += u64::from(record.weight);
        }
        let targets: BTreeSet<String> = weights.keys().map(|(target, _)| target.clone()).collect();
        let mut known = BTreeMap::new();
        for (target, answers) in self.ask_all(&asker, targets).await {
            let addresses = self.take(&target, answers, &mut sum);
            known.insert(target, addresses);
        }
        self.addresses.retain(|(name, _), _| known.contains_key(name));
        let none_has_a_weight = weights.values().all(|weight| *weight == 0);
        for ((target, port), weight) in weights {
            let addresses: Vec<_> = known.get(&target).into_iter().flatten().collect();
            if addresses.is_empty() {
                sum.errors.insert(format!("the target {target} has no address"));
                continue;
            }
            let addresses = addresses
                .into_iter()
                .map(|address| SocketAddr::new(*address, port));
            let weight = match weight {
                0 if none_has_a_weight => Weight::ONE,
                0 => Weight(ALMOST_NOTHING),
                weight => Weight(weight * Weight::ONE.0),
            };
            sum.found
                .push(self.dns.at_target((&target, port), addresses.collect(), weight));
        }
        sum
    }

    /// The addresses of all targets, a few at a time.
    async fn ask_all(&self, asker: &Arc<Asker>, targets: BTreeSet<String>) -> BTreeMap<String, Answers> {
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let mut asking = JoinSet::new();
        for target in targets {
            let (asker, turns) = (asker.clone(), turns.clone());
            asking.spawn_local(async move {
                let _turn = turns.acquire().await;
                let answers = both(&asker, &target).await;
                (target, answers)
            });
        }
        let mut all = BTreeMap::new();
        while let Some(asked) = asking.join_next().await {
            all.extend(asked.ok());
        }
        all
    }
}

/// What was said of both families.
type Answers = [(Question, Answer); 2];

async fn both(asker: &Asker, name: &str) -> Answers {
    let (four, six) = tokio::join!(
        asker.addresses(name, Question::Four),
        asker.addresses(name, Question::Six)
    );
    [(Question::Four, four), (Question::Six, six)]
}

#[cfg(test)]
mod tests;
