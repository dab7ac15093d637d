//! A server with one queue, for algorithms that order waiting requests rather than choose an endpoint.
//!
//! Continuous batching at its simplest: an iteration admits requests, in the order that the algorithm wants, while the batch
//! has room for the tokens of prompt and answer, then gives each running request a token. Prompts cost no time; what is
//! counted is service: weight 1 for each prompt token (only those not cached, for algorithms that know the cache) and 2 for
//! each generated one, as in the papers.

use std::collections::VecDeque;
use weighbridge_lab::yardsticks::prefixes::Memory;
use weighbridge_sim::engine::BlockHash;

/// Weight of a generated token.
pub(crate) const OUTPUT: f64 = 2.0;

/// A request that waits.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) client: usize,
    pub(crate) prompt: u32,
    pub(crate) output: u32,
    /// Prefix of the prompt, in blocks of 16 tokens.
    pub(crate) blocks: Vec<BlockHash>,
}

/// Order of a queue.
pub(crate) trait Order {
    /// A request has come and stands at the end of `queue`.
    fn arrived(&mut self, queue: &VecDeque<Waiting>) {
        let _ = queue;
    }

    /// Place in `queue`, which is not empty, of the request that is next; `cached` are its tokens in the cache, by place.
    fn next(&mut self, queue: &VecDeque<Waiting>, cached: &[u32]) -> usize;

    /// A request was admitted with so many prompt tokens to compute; `queue` is without it.
    fn admitted(&mut self, request: &Waiting, computed: u32, queue: &VecDeque<Waiting>) {
        let _ = (request, computed, queue);
    }

    /// A client got a token.
    fn generated(&mut self, client: usize) {
        let _ = client;
    }
}

/// The server.
pub(crate) struct Server {
    pub(crate) queue: VecDeque<Waiting>,
    /// Tokens that the batch may hold.
    pub(crate) room: u32,
    running: Vec<(Waiting, u32)>,
    cache: Memory,
    cache_tokens: u64,
    /// Service so far, by client.
    pub(crate) service: Vec<f64>,
    pub(crate) prompt_tokens: u64,
    pub(crate) cached_tokens: u64,
}

impl Server {
    /// A server for so many clients, whose batch holds `room` tokens and its prefix cache `cache_tokens`.
    pub(crate) fn new(clients: usize, room: u32, cache_tokens: u64) -> Self {
        Self {
            queue: VecDeque::new(),
            room,
            running: Vec::new(),
            cache: Memory::default(),
            cache_tokens,
            service: vec![0.0; clients],
            prompt_tokens: 0,
            cached_tokens: 0,
        }
    }

    pub(crate) fn arrive(&mut self, request: Waiting, order: &mut dyn Order) {
        self.queue.push_back(request);
        order.arrived(&self.queue);
    }

    fn cached(&self, request: &Waiting) -> u32 {
        (self.cache.leading(&request.blocks) as u32 * 16).min(request.prompt - 1)
    }

    /// One iteration.
    pub(crate) fn iterate(&mut self, order: &mut dyn Order) {
        while !self.queue.is_empty() {
            let cached: Vec<u32> = self.queue.iter().map(|request| self.cached(request)).collect();
            let place = order.next(&self.queue, &cached);
            let next = &self.queue[place];
            let held: u32 = self.running.iter().map(|(r, _)| r.prompt + r.output).sum();
            if held + next.prompt + next.output > self.room {
                break;
            }
            let request = self.queue.remove(place).unwrap();
            let computed = request.prompt - cached[place];
            self.cache.note(&request.blocks, 16);
            self.cache.shrink_to(self.cache_tokens);
            self.prompt_tokens += u64::from(request.prompt);
            self.cached_tokens += u64::from(cached[place]);
            self.service[request.client] += f64::from(computed);
            order.admitted(&request, computed, &self.queue);
            self.running.push((request, 0));
        }
        self.running.retain_mut(|(request, done)| {
            *done += 1;
            self.service[request.client] += OUTPUT;
            order.generated(request.client);
            *done < request.output
        });
    }

    /// Whether a client has requests that wait.
    pub(crate) fn backlogged(&self, client: usize) -> bool {
        self.queue.iter().any(|request| request.client == client)
    }
}

/// First come, first served: fair to nobody.
pub(crate) struct Arrival;

impl Order for Arrival {
    fn next(&mut self, _: &VecDeque<Waiting>, _: &[u32]) -> usize {
        0
    }
}

/// Longest prefix match first, as SGLang's engine orders its queue.
pub(crate) struct LongestPrefix;

impl Order for LongestPrefix {
    fn next(&mut self, _: &VecDeque<Waiting>, cached: &[u32]) -> usize {
        longest(cached, |_| true).unwrap_or(0)
    }
}

/// The first place with the most cached tokens among the `allowed`.
pub(crate) fn longest(cached: &[u32], mut allowed: impl FnMut(usize) -> bool) -> Option<usize> {
    let mut best: Option<usize> = None;
    for place in 0..cached.len() {
        if allowed(place) && best.is_none_or(|best| cached[place] > cached[best]) {
            best = Some(place);
        }
    }
    best
}
