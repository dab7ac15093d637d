//! Independent runs side by side, with the results in order: the number of threads changes nothing but the time.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Does `work` for each of `items` on at most `threads` threads; the results are in the order of the items.
pub fn in_order<T: Sync, R: Send>(
    threads: NonZeroUsize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let one = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return };
            let result = work(item);
            match done.lock() {
                Ok(mut done) => done.push((index, result)),
                Err(_) => return,
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.get().min(items.len()) {
            scope.spawn(one);
        }
        one();
    });
    let mut done = done
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whatever_the_threads() {
        let items: Vec<u64> = (0..100).collect();
        let squares: Vec<u64> = items.iter().map(|n| n * n).collect();
        for threads in [1, 2, 7, 200] {
            let threads = NonZeroUsize::new(threads).unwrap();
            assert_eq!(in_order(threads, &items, |n| n * n), squares);
        }
        assert_eq!(in_order(NonZeroUsize::MIN, &[] as &[u64], |n| *n), [0_u64; 0]);
    }
}
