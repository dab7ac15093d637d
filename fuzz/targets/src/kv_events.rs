//! KV events: any batch is read without a panic and into no more than it holds; a connection says the same however its bytes
//! are cut; and whatever happens between a publisher and its follower, what is believed held is held, and all of it once the way is
//! quiet and nothing was lost.

use crate::input::{Input, cut};
use bytes::BytesMut;
use std::collections::BTreeSet;
use weighbridge_wire::kv_events::{Batch, Change, Event, Follower, chain};
use weighbridge_wire::zmtp::{Received, Role, Zmtp};

/// What to do, and its input.
pub fn check(data: &[u8]) {
    let mut input = Input(data);
    match input.below(3) {
        0 => batch(input.0),
        1 => connection(&mut input),
        _ => Way::default().go(&mut input),
    }
}

fn batch(data: &[u8]) {
    let Ok(batch) = Batch::decode(data) else { return };
    let held = |event: &Event| match event {
        Event::Stored(stored) => {
            assert_eq!(
                stored.names.len() * stored.block_size as usize,
                stored.tokens.len()
            );
            assert!(stored.added.is_empty() || stored.added.len() == stored.names.len());
            stored.names.len() + stored.tokens.len()
        }
        Event::Removed { names, .. } => names.len(),
        Event::Cleared => 1,
    };
    let all: usize = batch.events.iter().map(held).sum();
    assert!(all + batch.unknown as usize + batch.unusable as usize <= data.len());
    let mut follower = Follower::new(64);
    let mut changes = Vec::new();
    let parts = [&b""[..], &[0; 8], data];
    assert!(follower.published(&parts, &mut changes).is_ok());
    assert!(follower.held() <= 64);
}

fn connection(input: &mut Input<'_>) {
    let role = if input.flag() {
        Role::Subscriber
    } else {
        Role::Dealer
    };
    let greeted = input.flag();
    let cuts = input.cuts();
    let mut bytes = Vec::new();
    if greeted {
        bytes.extend([0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1]);
        bytes.extend(b"NULL");
        bytes.resize(64, 0);
        let (peer, length) = if role == Role::Subscriber {
            ("PUB", 3)
        } else {
            ("ROUTER", 6)
        };
        bytes.extend([4, 22 + length]);
        bytes.extend(b"\x05READY\x0bSocket-Type\0\0\0");
        bytes.push(length);
        bytes.extend(peer.as_bytes());
    }
    bytes.extend(input.0);
    let said = |pieces: &[&[u8]]| {
        let mut out = Vec::new();
        let mut zmtp = Zmtp::new(role, &mut out);
        let (mut buffer, mut all) = (BytesMut::new(), Vec::new());
        for piece in pieces {
            buffer.extend_from_slice(piece);
            loop {
                match zmtp.receive(&mut buffer, &mut out) {
                    Ok(Received::Nothing) => break,
                    Ok(received) => all.push(received),
                    Err(error) => return (all, Some(error), out),
                }
            }
        }
        (all, None, out)
    };
    let whole = said(&[&bytes]);
    assert!(!greeted || whole.0.first() == Some(&Received::Ready));
    assert_eq!(said(&cut(&bytes, &cuts)), whole);
}

/// Tokens of a block.
const BLOCK: usize = 2;

/// A publisher whose engine holds prompts of equal tokens, its way, and its follower.
struct Way {
    /// Chains of blocks held: each is a path of tokens, one a block.
    held: BTreeSet<Vec<u8>>,
    next: u64,
    seconds: f64,
    kept: Vec<(u64, Vec<u8>)>,
    /// Published and not delivered yet.
    late: Vec<(u64, Vec<u8>)>,
    follower: Follower,
    believed: BTreeSet<u64>,
    asked: Option<u64>,
    changes: Vec<Change>,
}

impl Default for Way {
    fn default() -> Self {
        Self {
            held: BTreeSet::new(),
            next: 0,
            seconds: 1.0,
            kept: Vec::new(),
            late: Vec::new(),
            follower: Follower::new(1000),
            believed: BTreeSet::new(),
            asked: None,
            changes: Vec::new(),
        }
    }
}

impl Way {
    fn go(mut self, input: &mut Input<'_>) {
        self.connect();
        while !input.is_empty() {
            match input.below(9) {
                0..=2 => {
                    let event = self.engine(input);
                    self.publish(&event, input.below(4));
                }
                3 => self.deliver_late(input.below(8)),
                4 => self.repeat(input.below(16)),
                5 => self.replay(input.below(6)),
                6 => self.connect(),
                7 => self.restart(),
                _ => {
                    let ask = self.follower.replay_failed(&mut self.changes);
                    self.took(ask.map(|ask| ask.from));
                }
            }
        }
        self.rest();
    }

    /// One change of the cache, as an event.
    fn engine(&mut self, input: &mut Input<'_>) -> Vec<u8> {
        match input.below(8) {
            0 => {
                self.held.clear();
                return b"\x91\xb0AllBlocksCleared".to_vec();
            }
            1 | 2 => {
                // The deepest first: what stands behind a block goes before it.
                let leaf = |path: &&Vec<u8>| {
                    !self
                        .held
                        .iter()
                        .any(|other| other.len() > path.len() && other.starts_with(path))
                };
                let leaves: Vec<Vec<u8>> = self.held.iter().filter(leaf).cloned().collect();
                if let Some(path) = leaves.get(input.below(leaves.len().max(1))) {
                    self.held.remove(path);
                    return [b"\x92\xacBlockRemoved\x91", &name(path)[..]].concat();
                }
            }
            _ => {
                let parents: Vec<Vec<u8>> = self.held.iter().filter(|path| path.len() < 4).cloned().collect();
                let mut path = match input.below(parents.len() + 1) {
                    0 => Vec::new(),
                    place => parents[place - 1].clone(),
                };
                let parent = if path.is_empty() {
                    b"\xc0".to_vec()
                } else {
                    name(&path)
                };
                let token = input.byte() % 4;
                path.push(token);
                if self.held.insert(path.clone()) {
                    let tokens = [0x92, token, token, 2, 0xc0];
                    return [b"\x96\xabBlockStored\x91", &name(&path)[..], &parent, &tokens].concat();
                }
            }
        }
        b"\x91\xa5Other".to_vec()
    }

    fn publish(&mut self, event: &[u8], fate: usize) {
        let mut bytes = vec![0x92, 0xcb];
        bytes.extend(self.seconds.to_be_bytes());
        bytes.push(0x91);
        bytes.extend(event);
        let sent = (self.next, bytes);
        self.next += 1;
        self.seconds += 1.0;
        self.kept.push(sent.clone());
        match fate {
            0 => {}
            1 => self.late.push(sent),
            _ => self.deliver(&sent),
        }
    }

    fn deliver(&mut self, (number, bytes): &(u64, Vec<u8>)) {
        let parts = [&b""[..], &number.to_be_bytes(), bytes];
        let ask = self
            .follower
            .published(&parts, &mut self.changes)
            .expect("a batch");
        self.took(ask.map(|ask| ask.from));
    }

    fn deliver_late(&mut self, place: usize) {
        if place < self.late.len() {
            let sent = self.late.remove(place);
            self.deliver(&sent);
        }
    }

    fn repeat(&mut self, back: usize) {
        if let Some(sent) = self
            .kept
            .len()
            .checked_sub(back + 1)
            .map(|place| self.kept[place].clone())
        {
            self.deliver(&sent);
        }
    }

    /// Answers what was asked for, but for one batch.
    fn replay(&mut self, lost: usize) {
        let Some(from) = self.asked else { return };
        let kept: Vec<_> = self
            .kept
            .iter()
            .filter(|(number, _)| *number >= from)
            .cloned()
            .collect();
        for (place, (number, bytes)) in kept.iter().enumerate() {
            if place + 1 == lost {
                continue;
            }
            self.replayed(&[&number.to_be_bytes(), bytes]);
            if self.asked != Some(from) {
                return;
            }
        }
        self.replayed(&[&[0xff; 8], b""]);
    }

    fn replayed(&mut self, parts: &[&[u8]]) {
        let ask = self.follower.replayed(parts, &mut self.changes).expect("a batch");
        self.took(ask.map(|ask| ask.from));
    }

    fn connect(&mut self) {
        self.late.clear();
        let ask = self.follower.connected(&mut self.changes);
        self.took(ask.map(|ask| ask.from));
    }

    fn restart(&mut self) {
        self.held.clear();
        self.kept.clear();
        self.next = 0;
        self.connect();
    }

    fn took(&mut self, ask: Option<u64>) {
        if ask.is_some() || !self.follower.asking() {
            self.asked = ask;
        }
        for change in self.changes.drain(..) {
            match change {
                Change::Stored { parent, blocks } => {
                    assert!(parent.is_none_or(|parent| self.believed.contains(&parent)));
                    assert!(
                        !blocks.is_empty() && blocks.into_iter().all(|block| self.believed.insert(block))
                    );
                }
                Change::Removed { blocks } => {
                    assert!(!blocks.is_empty() && blocks.iter().all(|block| self.believed.remove(block)));
                }
                Change::Cleared | Change::Lost => self.believed.clear(),
            }
        }
        assert_eq!(self.follower.held(), self.believed.len());
    }

    /// The way is quiet, and the follower looks whether something is missing.
    fn rest(mut self) {
        for sent in std::mem::take(&mut self.late) {
            self.deliver(&sent);
        }
        self.publish(b"\x91\xa5Other", 0);
        let ask = self.follower.check(&mut self.changes);
        self.took(ask.map(|ask| ask.from));
        for _ in 0..8 {
            self.replay(0);
        }
        assert!(!self.follower.asking() && self.follower.waiting() == 0);
        let held: BTreeSet<u64> = self.held.iter().map(|path| ours(path)).collect();
        assert!(self.believed.is_subset(&held));
        if self.follower.whole() {
            assert_eq!(self.believed, held);
        }
    }
}

/// The engine's name of a block: the path to it as a number.
fn name(path: &[u8]) -> Vec<u8> {
    let number = path
        .iter()
        .fold(1_u64, |number, token| number * 4 + u64::from(*token));
    [&[0xcf][..], &number.to_be_bytes()].concat()
}

/// Our name of it.
fn ours(path: &[u8]) -> u64 {
    let tokens: Vec<u32> = path.iter().flat_map(|token| [u32::from(*token); BLOCK]).collect();
    let mut names = Vec::new();
    chain::blocks(chain::root(None), &tokens, BLOCK, &mut names);
    names.last().copied().unwrap_or_default()
}
