//! VTC, the virtual token counter (Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024).
//!
//! Each client has a counter of the service that it got, 1 for a prompt token and 2 for a generated one. The client with the
//! smallest counter, of those that wait, is next, with its oldest request. A client that had nothing waiting is lifted to the
//! smallest counter of those that do, or, with nobody waiting, to that of the client whose request left the queue last: time
//! away earns no credit. Two clients that both always have requests waiting then never differ by more than
//! 2 · max(longest prompt, 2 · tokens of a batch) in service (theorem 4.4).

use crate::queue::{OUTPUT, Order, Waiting};
use std::collections::VecDeque;

/// The counters.
#[derive(Default)]
pub(crate) struct Vtc {
    counters: Vec<f64>,
    last_left: Option<usize>,
}

impl Vtc {
    fn of(&mut self, client: usize) -> &mut f64 {
        if self.counters.len() <= client {
            self.counters.resize(client + 1, 0.0);
        }
        &mut self.counters[client]
    }
}

impl Order for Vtc {
    fn arrived(&mut self, queue: &VecDeque<Waiting>) {
        let Some(newest) = queue.back().map(|request| request.client) else {
            return;
        };
        let others = queue.len() - 1;
        if queue.iter().take(others).any(|request| request.client == newest) {
            return;
        }
        let floor = if others == 0 {
            self.last_left.map(|client| *self.of(client))
        } else {
            let counters: Vec<f64> = queue.iter().take(others).map(|r| *self.of(r.client)).collect();
            counters.into_iter().min_by(f64::total_cmp)
        };
        let counter = self.of(newest);
        *counter = counter.max(floor.unwrap_or(0.0));
    }

    fn next(&mut self, queue: &VecDeque<Waiting>, _: &[u32]) -> usize {
        let counters: Vec<f64> = queue.iter().map(|request| *self.of(request.client)).collect();
        let least = counters.iter().copied().fold(f64::INFINITY, f64::min);
        counters.iter().position(|counter| *counter <= least).unwrap_or(0)
    }

    fn admitted(&mut self, request: &Waiting, _: u32, queue: &VecDeque<Waiting>) {
        *self.of(request.client) += f64::from(request.prompt);
        if queue.iter().all(|other| other.client != request.client) {
            self.last_left = Some(request.client);
        }
    }

    fn generated(&mut self, client: usize) {
        *self.of(client) += OUTPUT;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Arrival, Server};

    const ROOM: u32 = 2000;
    const LONGEST: u32 = 300;
    /// 2 · max(longest prompt, 2 · tokens of a batch).
    const BOUND: f64 = 2.0 * OUTPUT * ROOM as f64;

    fn request(client: usize, prompt: u32, output: u32) -> Waiting {
        Waiting {
            client,
            prompt,
            output,
            blocks: Vec::new(),
        }
    }

    #[test]
    fn the_smallest_counter_is_next_with_its_oldest() {
        let mut vtc = Vtc::default();
        let queue: VecDeque<Waiting> = [request(0, 10, 1), request(1, 10, 1), request(0, 5, 1)].into();
        assert_eq!(vtc.next(&queue, &[]), 0);
        vtc.admitted(&queue[0], 10, &queue);
        assert_eq!(vtc.next(&queue, &[]), 1);
        for _ in 0..6 {
            vtc.generated(1);
        }
        // 10 against 12.
        assert_eq!(vtc.next(&queue, &[]), 0);
    }

    #[test]
    fn who_comes_back_is_lifted_to_the_least_that_wait() {
        let mut vtc = Vtc {
            counters: vec![50.0, 80.0, 7.0],
            last_left: Some(1),
        };
        let mut queue: VecDeque<Waiting> = [request(0, 1, 1), request(1, 1, 1), request(2, 1, 1)].into();
        vtc.arrived(&queue);
        assert_eq!(vtc.counters, [50.0, 80.0, 50.0]);
        // Nobody waits: to the one that left last.
        queue.drain(..2);
        vtc.arrived(&queue);
        assert_eq!(vtc.counters[2], 80.0);
    }

    /// Both clients always have requests waiting; the first sends more and longer ones.
    fn differ_most(order: &mut dyn Order) -> f64 {
        let mut server = Server::new(2, ROOM, 0);
        let mut most = 0.0_f64;
        for number in 0..4000 {
            if number % 10 == 0 {
                for _ in 0..3 {
                    server.arrive(request(0, LONGEST, 40), order);
                }
                for _ in 0..2 {
                    server.arrive(request(1, LONGEST / 3, 40), order);
                }
            }
            server.iterate(order);
            // Until then the batch takes all that comes.
            if number > 100 {
                assert!(server.backlogged(0) && server.backlogged(1), "{number}");
                most = most.max((server.service[0] - server.service[1]).abs());
            }
        }
        most
    }

    #[test]
    fn clients_with_requests_waiting_stay_within_the_bound() {
        let differ = differ_most(&mut Vtc::default());
        assert!(differ > 0.0 && differ <= BOUND, "{differ} of {BOUND}");
        let unfair = differ_most(&mut Arrival);
        assert!(
            unfair > 2.0 * BOUND,
            "first come, first served differs by {unfair}"
        );
    }

    #[test]
    fn a_client_that_asks_for_little_waits_little() {
        let mut order = Vtc::default();
        let mut server = Server::new(2, ROOM, 0);
        let mut waits = 0;
        for number in 0..2000 {
            while server.queue.iter().filter(|r| r.client == 0).count() < 50 {
                server.arrive(request(0, LONGEST, 40), &mut order);
            }
            if number % 100 == 50 {
                server.arrive(request(1, 100, 20), &mut order);
            }
            server.iterate(&mut order);
            waits += usize::from(server.backlogged(1));
        }
        // 20 requests; each waits at most for the batch to make room, which takes up to 40 iterations.
        assert!(waits <= 20 * 40, "{waits} iterations");
        assert!(
            server.service[1] >= 19.0 * (100.0 + 20.0 * OUTPUT),
            "{:?}",
            server.service
        );
    }
}
