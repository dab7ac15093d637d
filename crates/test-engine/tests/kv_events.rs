//! A follower of a publisher whose batches get lost, swapped, repeated and cut off, against what the engine holds.
//!
//! Whatever the way does: what is believed held is held. And once the way is quiet and everything is known since some
//! moment at which the cache was empty, what is held is also believed held.
#![allow(
    clippy::expect_used,
    reason = "a broken assumption ends the test with a message"
)]

use std::collections::HashSet;
use std::hash::{Hash, Hasher};

use weighbridge_test_engine::kv::{Cache, Dice, Numbering, Sent, Style};
use weighbridge_wire::kv_events::{Ask, Change, Follower, chain};

const BLOCK: usize = 4;

/// The way between a publisher and its follower.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// One in so many batches; 0: none.
    lose: u64,
    swap: u64,
    repeat: u64,
    restart: u64,
    reconnect: u64,
    clear: u64,
    /// Batches kept for a replay; 0: no replay socket.
    kept: usize,
    /// One in so many batches of a replay gets lost.
    lose_replayed: u64,
    /// Batches published before the follower comes.
    late: u64,
    style: Style,
}

const CALM: Way = Way {
    lose: 0,
    swap: 0,
    repeat: 0,
    restart: 0,
    reconnect: 0,
    clear: 0,
    kept: 10_000,
    lose_replayed: 0,
    late: 0,
    style: Style::Maps,
};

/// An index as simple as can be.
#[derive(Default)]
struct Naive(HashSet<u64>);

impl Naive {
    fn apply(&mut self, changes: &mut Vec<Change>) {
        for change in changes.drain(..) {
            match change {
                Change::Stored { parent, blocks } => {
                    assert!(!blocks.is_empty());
                    assert!(
                        parent.is_none_or(|parent| self.0.contains(&parent)),
                        "behind a block that is held"
                    );
                    for block in blocks {
                        assert!(self.0.insert(block), "said to be stored once");
                    }
                }
                Change::Removed { blocks } => {
                    assert!(
                        blocks.iter().all(|block| self.0.remove(block)),
                        "only what is held is removed"
                    );
                }
                Change::Cleared | Change::Lost => self.0.clear(),
            }
        }
    }
}

struct Run {
    way: Way,
    dice: Dice,
    cache: Cache,
    numbering: Numbering,
    follower: Follower,
    index: Naive,
    /// Batches on the way that come after the next one.
    delayed: Vec<Sent>,
    ask: Option<Ask>,
    changes: Vec<Change>,
}

impl Run {
    fn new(way: Way, seed: u64) -> Run {
        Run {
            way,
            dice: Dice::new(seed),
            cache: Cache::new(BLOCK, 24),
            numbering: Numbering::new(way.style, BLOCK, way.kept),
            follower: Follower::new(1000),
            index: Naive::default(),
            delayed: Vec::new(),
            ask: None,
            changes: Vec::new(),
        }
    }

    fn happens(&mut self, once_in: u64) -> bool {
        once_in > 0 && self.dice.once_in(once_in)
    }

    /// What an engine does in a step.
    fn step(&mut self) -> Sent {
        for _ in 0..1 + self.dice.below(3) {
            let prompt = self.dice.prompt(BLOCK);
            let copies = if self.dice.once_in(5) { 2 } else { 1 };
            self.cache.run(&prompt, copies);
        }
        if self.happens(self.way.clear) {
            self.cache.clear();
        }
        self.numbering.publish(&self.cache.take_events())
    }

    fn deliver(&mut self, sent: &Sent) {
        let parts = [
            b"".to_vec(),
            sent.number.to_be_bytes().to_vec(),
            sent.bytes.clone(),
        ];
        let ask = self
            .follower
            .published(&parts, &mut self.changes)
            .expect("a batch");
        self.took(ask);
    }

    fn took(&mut self, ask: Option<Ask>) {
        self.index.apply(&mut self.changes);
        if ask.is_some() {
            self.ask = ask;
        } else if !self.follower.asking() {
            self.ask = None;
        }
        assert_eq!(self.ask.is_some(), self.follower.asking());
        assert_eq!(self.follower.held(), self.index.0.len());
    }

    fn connect(&mut self) {
        self.delayed.clear();
        let ask = self.follower.connected(&mut self.changes);
        self.took(ask);
    }

    /// Answers what was asked, if anything was.
    fn replay(&mut self) {
        let Some(Ask { from }) = self.ask.take() else {
            return;
        };
        if self.way.kept == 0 {
            let ask = self.follower.replay_failed(&mut self.changes);
            return self.took(ask);
        }
        self.ask = Some(Ask { from });
        for sent in self.numbering.replay(from) {
            if self.happens(self.way.lose_replayed) {
                continue;
            }
            let parts = [sent.number.to_be_bytes().to_vec(), sent.bytes];
            let ask = self
                .follower
                .replayed(&parts, &mut self.changes)
                .expect("a batch");
            self.took(ask);
            if ask.is_some() || !self.follower.asking() {
                return;
            }
        }
        let end = [u64::MAX.to_be_bytes().to_vec(), Vec::new()];
        let ask = self.follower.replayed(&end, &mut self.changes).expect("the end");
        self.took(ask);
    }

    fn trouble(&mut self) {
        if self.happens(self.way.restart) {
            self.cache = Cache::new(BLOCK, 24);
            self.numbering.restart();
            for _ in 0..self.dice.below(4) {
                // Before the follower is connected again.
                self.step();
            }
            self.connect();
        } else if self.happens(self.way.reconnect) {
            for _ in 0..self.dice.below(4) {
                self.step();
            }
            self.connect();
        }
    }

    fn go(&mut self, steps: u64) {
        for _ in 0..self.way.late {
            self.step();
        }
        self.connect();
        for _ in 0..steps {
            self.trouble();
            let sent = self.step();
            if self.happens(self.way.lose) {
                continue;
            }
            if self.happens(self.way.swap) {
                self.delayed.push(sent);
                continue;
            }
            self.deliver(&sent);
            if self.happens(self.way.repeat) {
                self.deliver(&sent);
            }
            for late in std::mem::take(&mut self.delayed) {
                self.deliver(&late);
            }
            if self.dice.once_in(2) {
                self.replay();
            }
            if self.ask.is_none() && self.follower.waiting() == 0 && self.way.lose == 0 {
                self.believed_is_held();
            }
        }
        self.rest();
    }

    /// What is on the way arrives, and the follower looks whether something is missing.
    fn rest(&mut self) {
        self.way.lose_replayed = 0;
        for late in std::mem::take(&mut self.delayed) {
            self.deliver(&late);
        }
        let last = self.step();
        if self.way.kept == 0 {
            // Nobody could answer whether something is missing at the end.
            self.deliver(&last);
        } else {
            let ask = self.follower.check(&mut self.changes);
            self.took(ask);
        }
        for _ in 0..10 {
            self.replay();
        }
        assert!(!self.follower.asking() && self.follower.waiting() == 0);
    }

    fn held(&self) -> HashSet<u64> {
        let mut names = Vec::new();
        let prefixes = self.cache.prefixes();
        prefixes
            .iter()
            .map(|prefix| {
                chain::blocks(chain::root(None), prefix, BLOCK, &mut names);
                *names.last().expect("a block")
            })
            .collect()
    }

    fn believed_is_held(&self) {
        let held = self.held();
        assert!(self.index.0.is_subset(&held), "{:?}", self.way);
        if self.follower.whole() {
            assert_eq!(self.index.0, held, "{:?}", self.way);
        }
    }
}

/// Runs it with many seeds; says in how many everything was known at the end, and what the followers counted.
fn check(way: Way, seeds: u64) -> (u64, weighbridge_wire::kv_events::FollowerCounts) {
    let mut whole = 0;
    let mut counts = weighbridge_wire::kv_events::FollowerCounts::default();
    let mut hasher = std::hash::DefaultHasher::new();
    format!("{way:?}").hash(&mut hasher);
    for seed in 0..seeds {
        let mut run = Run::new(way, hasher.finish().wrapping_add(seed));
        run.go(60);
        run.believed_is_held();
        whole += u64::from(run.follower.whole());
        let now = run.follower.counts();
        counts.replays += now.replays;
        counts.restarts += now.restarts;
        counts.losses += now.losses;
        assert_eq!((now.broken, now.unknown, now.unusable), (0, 0, 0));
    }
    (whole, counts)
}

#[test]
fn on_a_calm_way() {
    for style in [Style::Maps, Style::Numbers, Style::Arrays] {
        for late in [0, 20] {
            let (whole, counts) = check(Way { style, late, ..CALM }, 40);
            assert_eq!((whole, counts.restarts, counts.losses), (40, 0, 0));
        }
    }
}

#[test]
fn with_batches_lost() {
    let (whole, counts) = check(
        Way {
            lose: 5,
            late: 3,
            ..CALM
        },
        60,
    );
    assert_eq!((whole, counts.losses), (60, 0));
    assert!(counts.replays > 300, "{counts:?}");
    // On the way of the replay as well.
    let (whole, _) = check(
        Way {
            lose: 5,
            lose_replayed: 3,
            ..CALM
        },
        60,
    );
    assert!(whole >= 20, "{whole}");
}

#[test]
fn with_batches_swapped_and_repeated() {
    let (whole, counts) = check(
        Way {
            swap: 3,
            repeat: 3,
            ..CALM
        },
        60,
    );
    assert_eq!((whole, counts.losses), (60, 0));
    // A publisher that keeps nothing: order comes back by itself.
    let (_, counts) = check(
        Way {
            repeat: 3,
            kept: 0,
            ..CALM
        },
        60,
    );
    assert_eq!(counts.losses, 0);
}

#[test]
fn with_a_publisher_that_begins_anew() {
    let (whole, counts) = check(Way { restart: 10, ..CALM }, 60);
    assert_eq!((whole, counts.losses), (60, 0));
    assert!(counts.restarts > 200, "{counts:?}");
}

#[test]
fn with_connections_that_break() {
    let (whole, counts) = check(
        Way {
            reconnect: 10,
            clear: 20,
            ..CALM
        },
        60,
    );
    assert_eq!((whole, counts.losses, counts.restarts), (60, 0, 0));
}

#[test]
fn with_a_publisher_that_keeps_too_little() {
    let (whole, counts) = check(
        Way {
            lose: 3,
            reconnect: 8,
            kept: 3,
            clear: 15,
            ..CALM
        },
        60,
    );
    assert!(counts.losses > 30, "{counts:?}");
    assert!(whole >= 5, "{whole}");
}

#[test]
fn with_everything_at_once() {
    for kept in [10_000, 40, 6, 1, 0] {
        for style in [Style::Maps, Style::Numbers, Style::Arrays] {
            let way = Way {
                lose: 6,
                swap: 5,
                repeat: 5,
                restart: 25,
                reconnect: 20,
                clear: 30,
                kept,
                lose_replayed: 12,
                late: 5,
                style,
            };
            check(way, 40);
        }
    }
}
