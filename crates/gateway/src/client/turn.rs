//! Fairness among the connections of one thread.
//!
//! A task that wakes itself is run again before its thread looks for what came in: the executor runs some sixty tasks in
//! a row before it asks the kernel and the timers. A connection through which data flows faster than one turn can move
//! it wakes itself in each turn, and would keep everybody else on its thread waiting for seconds. So after a few turns in a
//! row, what a turn wakes itself for is put off until the thread has looked round.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Turns in a row before others are let in. A codec that hands data on within its task wakes it once more for nothing:
/// that is common, and cheap as long as nobody looks round for it.
const ROW_MAX: u8 = 4;

/// Nobody has a turn: whoever wakes the task wakes it at once.
const IDLE: u8 = 0;
/// The task is being polled.
const AT_WORK: u8 = 1;
/// It is being polled and has been woken since that began.
const AGAIN: u8 = 2;

/// The turns of one task.
#[derive(Default)]
pub(crate) struct Turns {
    wakes: Option<(Waker, Arc<Wakes>)>,
    /// Turns since the task last rested or was put off.
    in_a_row: u8,
}

struct Wakes {
    task: Waker,
    state: AtomicU8,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let noted = self
            .state
            .compare_exchange(AT_WORK, AGAIN, Ordering::AcqRel, Ordering::Acquire);
        if noted == Err(IDLE) {
            self.task.wake_by_ref();
        }
    }
}

impl Turns {
    /// Polls `work` with a context whose waker can put off what it is called for meanwhile.
    pub(crate) fn take<T>(
        &mut self,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let known = self
            .wakes
            .take()
            .filter(|(_, wakes)| wakes.task.will_wake(cx.waker()));
        let (waker, wakes) = &*self.wakes.insert(known.unwrap_or_else(|| {
            let wakes = Arc::new(Wakes {
                task: cx.waker().clone(),
                state: AtomicU8::new(IDLE),
            });
            (Waker::from(wakes.clone()), wakes)
        }));
        wakes.state.store(AT_WORK, Ordering::Release);
        let done = work(&mut Context::from_waker(waker));
        let again = wakes.state.swap(IDLE, Ordering::AcqRel) == AGAIN && done.is_pending();
        self.in_a_row = if again { self.in_a_row + 1 } else { 0 };
        if self.in_a_row >= ROW_MAX {
            self.in_a_row = 0;
            // Polled once it asks the runtime to wake the task after the next look at sockets and timers.
            let _ = pin!(tokio::task::yield_now()).poll(cx);
        } else if again {
            cx.waker().wake_by_ref();
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::rc::Rc;
    use tokio::task::LocalSet;

    /// A task that always has something to do gives way to a timer.
    #[test]
    fn who_always_works_lets_others_in() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        LocalSet::new().block_on(&runtime, async {
            let rounds = Rc::new(Cell::new(0_u32));
            let counted = rounds.clone();
            tokio::task::spawn_local(async move {
                let mut turns = Turns::default();
                poll_fn(|cx| {
                    turns.take(cx, |cx| {
                        counted.set(counted.get() + 1);
                        cx.waker().wake_by_ref();
                        Poll::<()>::Pending
                    })
                })
                .await;
            });
            // Each yield comes back after one look at sockets and timers.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            let rounds = rounds.get();
            let expected = 50 * u32::from(ROW_MAX)..=200 * u32::from(ROW_MAX);
            assert!(expected.contains(&rounds), "{rounds} turns in 100 looks");
        });
    }

    #[test]
    fn a_wake_between_turns_is_passed_on() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut turns = Turns::default();
            let mut woken: Option<Waker> = None;
            let mut first = true;
            poll_fn(|cx| {
                let done = turns.take(cx, |cx| {
                    woken = Some(cx.waker().clone());
                    if std::mem::take(&mut first) {
                        Poll::Pending
                    } else {
                        Poll::Ready(())
                    }
                });
                if let Some(waker) = woken.take().filter(|_| done.is_pending()) {
                    std::thread::spawn(move || waker.wake());
                }
                done
            })
            .await;
        });
    }
}
