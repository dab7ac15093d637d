//! Session affinity by rendezvous hashing: nothing stored, the same on every replica of the gateway.

use super::{Candidates, Home, Request};
use crate::explain::Abstained;
pub use crate::rendezvous::SessionKey;
use crate::rendezvous::{fmix64, fnv};
use crate::units::{Size, show_size};
use crate::work::Needs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When it is right and when it is wrong, for the reference of policies.
pub const GUIDE: &str = "\
Gives every session an order of the endpoints by rendezvous hashing: the first scores 1, the next 1/2, then 1/4, and so on.
Nothing is stored, so all replicas of the gateway agree, and an endpoint that leaves moves only its own sessions.

**Right** for conversations and agents whose clients send a session key, since each turn then finds the cache of the turn
before. **Wrong** alone: a session stays where it is however busy its endpoint is. Pair it with `least_inflight` (the larger
the route, the larger that weight; `check` says how large), or set `bound`. Where no client sends a key it abstains;
`prefix_cache` then finds shared beginnings by itself.

Where clients send no key, the entry `{prompt_head: 16KiB}` takes the beginning of the prompt for one: tools, system prompt and
what the user says before the first answer, which all turns of a conversation repeat; at most 16 KiB of it. So conversations stay
together, and so do questions about one long document. It is tried last, for any request that has a prompt. Make it longer than
what all prompts begin with, which would send them all to one endpoint, and shorter than documents about which several ask.

Keys and heads have the same home on all gateways. Of a `bound` each gateway sees its own part, and with a few requests under way in
each it moves many; `least_inflight` moves fewer.

Example: with three endpoints the shares are 4/7, 2/7 and 1/7 of its weight.
";

/// Largest `bound`: above any number of endpoints, where it bounds nothing.
const BOUND_MAX: f64 = 1e6;

/// Settings of `session_affinity`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Weight in the sum, above 0 and at most 1000000.
    pub weight: f64,
    /// Where the session key comes from: the first entry that gives a value. Entries that need no body are tried
    /// first, `prompt_head` last.
    pub keys: Vec<KeySource>,
    /// Ends of request paths on which body entries count.
    pub paths: Vec<String>,
    /// Bounded load: a candidate above ⌈bound · (total in flight + 1) / N⌉ drops to the last rank. 1 to 1000000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<f64>,
}

/// One place to look for a session key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeySource {
    /// A request header.
    Header(String),
    /// A cookie.
    Cookie(String),
    /// A string in the JSON body, as a dotted path.
    Body(String),
    /// The beginning of the prompt: all before the first answer, at most this size, 256B to 4MiB.
    PromptHead(Size),
    /// The client's address.
    ClientIp,
    /// The client's API key.
    ApiKey,
}

/// Sizes of a prompt's head: a block of it, and what is known of the longest prompt.
const HEAD_BYTES: std::ops::RangeInclusive<u64> = 256..=4 << 20;

impl Default for Config {
    fn default() -> Self {
        Self {
            weight: 1.0,
            keys: vec![
                KeySource::Header("session-id".into()),
                KeySource::Header("x-session-id".into()),
                KeySource::Header("x-client-request-id".into()),
                KeySource::Body("prompt_cache_key".into()),
            ],
            paths: vec!["/responses".into(), "/messages".into()],
            bound: None,
        }
    }
}

impl Config {
    /// Most bytes of a prompt that stand for a session where nothing else does; none: nothing does.
    #[must_use]
    pub fn head_bytes(&self) -> Option<u64> {
        self.heads().next()
    }

    fn heads(&self) -> impl Iterator<Item = u64> + Clone {
        self.keys.iter().filter_map(|key| match key {
            KeySource::PromptHead(size) => Some(size.0),
            _ => None,
        })
    }
}

impl super::ScorerConfig for Config {
    fn name(&self) -> &'static str {
        "session_affinity"
    }

    fn weight(&self) -> f64 {
        self.weight
    }

    fn check(&self) -> Result<(), String> {
        super::check_weight(self.weight)?;
        if let Some(size) = self.heads().find(|size| !HEAD_BYTES.contains(size)) {
            return Err(format!(
                "keys: prompt_head: {} is not from 256B to 4MiB; 16KiB is some 4,000 tokens",
                show_size(size)
            ));
        }
        if self.heads().count() > 1 {
            return Err("keys: prompt_head stands there twice; every prompt has a head, so only the first would count".into());
        }
        match self.bound {
            Some(bound) if !bound.is_finite() || bound < 1.0 => Err(format!(
                "bound: {bound} is below 1; 1.25 lets an endpoint hold a quarter more than the mean"
            )),
            Some(bound) if bound > BOUND_MAX => Err(format!(
                "bound: {bound:e} is above {BOUND_MAX}; one above the number of endpoints bounds nothing: leave it out"
            )),
            _ => Ok(()),
        }
    }

    fn needs(&self) -> Needs {
        match self.head_bytes() {
            Some(_) => Needs::HEAD,
            None => Needs::NONE,
        }
    }

    fn build(&self) -> Box<dyn super::Scorer> {
        Box::new(Affinity { bound: self.bound })
    }
}

/// Rendezvous (highest random weight) hashing, D. Thaler and C. Ravishankar, IEEE/ACM Transactions on Networking 6(1),
/// 1998. The bound is that of "Consistent Hashing with Bounded Loads" (V. Mirrokni, M. Thorup, M. Zadimoghaddam, 2016).
struct Affinity {
    bound: Option<f64>,
}

impl super::Scorer for Affinity {
    fn score(
        &self,
        request: &Request<'_>,
        candidates: &Candidates<'_>,
        scores: &mut [f64],
    ) -> Result<Option<Home>, Abstained> {
        let session = request.session.ok_or(Abstained::NoKey)?;
        let mut ranks = candidates.ranks.map(std::cell::Cell::take).unwrap_or_default();
        rank_all(session, candidates, &mut ranks);
        ranks.sort_unstable();
        let home = ranks.first().map(|first| Home {
            place: place_of(*first) as usize,
            strength: !((first >> 32) as u64),
        });
        let mut score = 1.0;
        let mut rank = |place: u32| {
            if let Some(slot) = scores.get_mut(place as usize) {
                *slot = score;
            }
            score *= 0.5;
        };
        match self.bound.map(|bound| most_inflight(bound, candidates)) {
            None => ranks.iter().for_each(|one| rank(place_of(*one))),
            Some(most) => {
                let is_over = |place: &u32| f64::from(candidates.get(*place as usize).inflight) + 1.0 > most;
                let places = || ranks.iter().map(|one| place_of(*one));
                places().filter(|place| !is_over(place)).for_each(&mut rank);
                places().filter(is_over).for_each(&mut rank);
            }
        }
        if let Some(kept) = candidates.ranks {
            kept.set(ranks);
        }
        Ok(home)
    }

    fn belongs(&self, request: &Request<'_>, key: &[u8]) -> u64 {
        request.session.map_or(0, |session| session.hash(key))
    }
}

/// Place of one of [`rank_all`]'s.
#[expect(clippy::cast_possible_truncation, reason = "the place is the lower half")]
const fn place_of(rank: u128) -> u32 {
    rank as u32
}

/// Fills `ranks` with h and place of each as one number: r grows with h, and the largest h comes first, the earlier place
/// among equals. The keys of one target begin alike, so that much is hashed once.
fn rank_all(session: SessionKey, candidates: &Candidates<'_>, ranks: &mut Vec<u128>) {
    let mut begun: (&[u8], u64) = (&[], session.0);
    ranks.clear();
    ranks.extend((0..candidates.len()).map(|place| {
        let candidate = candidates.get(place);
        let name = candidate.target.name.as_bytes();
        let (start, rest) = candidate
            .key
            .split_at_checked(name.len() + 1)
            .unwrap_or((&[], candidate.key));
        // A target's candidates share one name, so its address tells whether it is the same.
        if !std::ptr::eq(begun.0, name) || start.is_empty() {
            begun = (name, fnv(session.0, start));
        }
        let h = fmix64(fnv(begun.1, rest));
        (u128::from(!h) << 32) | place as u128
    }));
}

/// ⌈bound · (total in flight + 1) / N⌉.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn most_inflight(bound: f64, candidates: &Candidates<'_>) -> f64 {
    let total: u64 = candidates.iter().map(|c| u64::from(c.inflight)).sum();
    (bound * (total + 1) as f64 / candidates.len() as f64).ceil()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::Abstained;
    use crate::policies::ScorerConfig;
    use crate::policies::stage::Stage;

    #[test]
    #[expect(clippy::float_cmp, reason = "the vectors are exact")]
    fn vectors() {
        let session = SessionKey::new(b"demo-session");
        assert_eq!(session.hash(&[0x61, 0, 0x31]), 0xd28b_b852_00d7_19dc);
        assert_eq!(session.rank_value(&[0x61, 0, 0x31]), 0.822_444_458_027_203_1);
        assert_eq!(session.hash(&[0x62, 0, 0x32]), 0x93dc_e3a8_c29c_fe1d);
        assert_eq!(session.rank_value(&[0x62, 0, 0x32]), 0.577_589_253_140_661_8);
    }

    fn stage(bound: Option<f64>, count: usize) -> Stage {
        let config = Config {
            bound,
            ..Config::default()
        };
        Stage::new(count, |policies| policies.session_affinity = Some(config))
    }

    fn scores(bound: Option<f64>, inflight: &[u32]) -> Vec<f64> {
        let mut stage = stage(bound, inflight.len());
        stage.session = Some(SessionKey::new(b"s"));
        for (place, count) in inflight.iter().enumerate() {
            stage.busy(place, *count);
        }
        stage.scores("session_affinity")
    }

    #[test]
    fn ranks_halve() {
        let mut all = scores(None, &[0; 5]);
        all.sort_by(|a, b| b.total_cmp(a));
        assert_eq!(all, [1.0, 0.5, 0.25, 0.125, 0.0625]);
    }

    #[test]
    fn no_key_abstains() {
        let stage = stage(None, 2);
        assert_eq!(stage.abstained("session_affinity"), Some(Abstained::NoKey));
    }

    #[test]
    fn above_the_bound_drops_to_the_last_ranks() {
        let free = scores(None, &[0; 4]);
        let owner = free.iter().position(|score| *score == 1.0).unwrap();
        let second = free.iter().position(|score| *score == 0.5).unwrap();
        // 3 in flight: ⌈1.25 · 4 / 4⌉ = 2, and the owner would hold 4.
        let mut load = [0; 4];
        load[owner] = 3;
        let bounded = scores(Some(1.25), &load);
        assert_eq!((bounded[owner], bounded[second]), (0.125, 1.0));
        // Both first ranks over: ⌈1.25 · 7 / 4⌉ = 3 < 4.
        load[second] = 3;
        let bounded = scores(Some(1.25), &load);
        assert_eq!((bounded[owner], bounded[second]), (0.25, 0.125));
        load[owner] = 1;
        load[second] = 0;
        assert_eq!(scores(Some(1.25), &load)[owner], 0.125, "2 > ⌈1.25 · 2 / 4⌉");
        assert_eq!(scores(Some(100.0), &[9, 0, 0, 0]), free);
    }

    #[test]
    fn refuses_a_bound_below_one() {
        let with = |bound| Config {
            bound: Some(bound),
            ..Config::default()
        };
        assert!(with(0.9).check().is_err() && with(f64::NAN).check().is_err());
        assert_eq!(with(1.25).check(), Ok(()));
    }

    #[test]
    fn a_head_is_one_of_a_size_that_says_something_and_needs_the_prompt() {
        let with = |sizes: &[u64]| Config {
            keys: sizes
                .iter()
                .map(|size| KeySource::PromptHead(Size(*size)))
                .collect(),
            ..Config::default()
        };
        assert_eq!(with(&[256]).check(), Ok(()));
        assert_eq!(with(&[4 << 20]).check(), Ok(()));
        for wrong in [&[255][..], &[(4 << 20) + 1], &[0], &[1024, 2048]] {
            assert!(with(wrong).check().is_err(), "{wrong:?}");
        }
        assert_eq!(
            (with(&[1024]).head_bytes(), with(&[1024]).needs()),
            (Some(1024), Needs::HEAD)
        );
        assert_eq!(
            (Config::default().head_bytes(), Config::default().needs()),
            (None, Needs::NONE)
        );
        let read: Config =
            serde_json::from_str(r#"{"keys": ["client_ip", {"prompt_head": "32KiB"}]}"#).unwrap();
        assert_eq!(
            read.keys,
            [KeySource::ClientIp, KeySource::PromptHead(Size(32 << 10))]
        );
    }
}
