//! Giving memory back to the system after a burst.
//!
//! The allocator gives back what has been free for a second, but looks for it only when it gets a new run of pages. A
//! gateway that has nothing to do after a burst would keep its memory, so something large is allocated now and then: it is
//! never written to, and so takes no memory itself.

use std::hint::black_box;
use std::time::Duration;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(5);
/// Large enough that the allocator makes a run of pages of its own for it.
const LARGE: usize = 8 << 20;

/// Runs until it is dropped.
pub(super) async fn give_back() {
    loop {
        tokio::time::sleep(EVERY).await;
        drop(black_box(Vec::<u8>::with_capacity(black_box(LARGE))));
    }
}
