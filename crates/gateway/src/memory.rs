//! Memory for the bodies of requests and of held answers: a bound on all of them together.
//!
//! `server.max_body` bounds one body and `server.max_connections` how many there are, but their product is more than any
//! machine has. Room is taken in steps as bytes come, not by the length that a client announces: an announced length
//! costs its sender nothing.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// Room that is taken at once, bytes; less where a body is known to be smaller.
const STEP: usize = 128 * 1024;
/// Longest wait for room.
const WAIT: Duration = Duration::from_secs(1);
/// Time between two looks for it.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Share of the process's memory that bodies may take by default: 1 part in this many.
const PARTS: usize = 4;
/// What the default is made from where the system does not say how much memory there is, bytes.
const UNKNOWN: usize = 4 << 30;

/// The memory that all bodies share.
pub(crate) struct BodyMemory {
    used: AtomicUsize,
    /// Where the config names no limit, bytes.
    default: usize,
}

impl BodyMemory {
    /// With a default limit that fits this process.
    pub(crate) fn new() -> Self {
        Self {
            used: AtomicUsize::new(0),
            default: available(Path::new("/")) / PARTS,
        }
    }

    /// Without a default limit: a part of it that has a bound of its own.
    pub(crate) fn part() -> Self {
        Self {
            used: AtomicUsize::new(0),
            default: 0,
        }
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// The limit in force: the configured one, or the default, under which one body of `body_max` always fits.
    pub(crate) fn limit(&self, configured: Option<usize>, body_max: usize) -> usize {
        configured.unwrap_or_else(|| self.default.max(body_max))
    }
}

/// Room taken from the memory of all bodies, given back when it is dropped.
pub(crate) struct Room {
    memory: Arc<BodyMemory>,
    bytes: usize,
}

impl Room {
    /// None yet.
    pub(crate) fn none(memory: &Arc<BodyMemory>) -> Self {
        Self {
            memory: memory.clone(),
            bytes: 0,
        }
    }

    /// Takes more, if that stays below `limit` altogether.
    fn grow(&mut self, bytes: usize, limit: usize) -> bool {
        let before = self.memory.used.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= limit;
        if fits {
            self.bytes += bytes;
        } else {
            self.memory.used.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }

    /// Makes it `bytes` at least, if that stays below `limit` altogether.
    pub(crate) fn reach(&mut self, bytes: usize, limit: usize) -> bool {
        bytes <= self.bytes || self.grow(bytes - self.bytes, limit)
    }

    /// Makes it what a body of `bytes` takes that is already here.
    fn fit(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.memory.used.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            self.memory.used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Why a metered body ended early.
#[derive(Debug)]
pub(crate) enum Stopped<E> {
    /// There was no room for it in time.
    NoRoom,
    /// The body itself.
    Body(E),
}

impl<E: fmt::Display> fmt::Display for Stopped<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoom => f.write_str("no memory for the body"),
            Self::Body(error) => error.fmt(f),
        }
    }
}

impl<E: Error> Error for Stopped<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NoRoom => None,
            Self::Body(error) => error.source(),
        }
    }
}

/// A body whose bytes are counted. Where there is no room it is not read, so that its sender waits too.
pub(crate) struct Metered<B = Incoming> {
    body: B,
    room: Room,
    limit: usize,
    came: usize,
    /// What is known of its length.
    length: Option<usize>,
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
    refused: bool,
}

impl<B> Metered<B> {
    /// Counts `body`, of which its head said the `length`, if any, under `limit` for all bodies.
    pub(crate) fn new(body: B, length: Option<usize>, (memory, limit): (&Arc<BodyMemory>, usize)) -> Self {
        Self {
            body,
            room: Room::none(memory),
            limit,
            came: 0,
            length,
            waiting: None,
            refused: false,
        }
    }

    /// Whether it ended for want of room.
    pub(crate) fn refused(&self) -> bool {
        self.refused
    }

    /// The room that its bytes take, to be kept as long as they are.
    pub(crate) fn into_room(mut self) -> Room {
        self.room.fit(self.came);
        self.room
    }

    /// Ready once there is room for what comes next; false: there is none.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let left = self
            .length
            .map_or(STEP, |length| length.saturating_sub(self.came));
        if left == 0 || self.room.bytes > self.came {
            return Poll::Ready(true);
        }
        loop {
            if self.room.grow(left.min(STEP), self.limit) {
                self.waiting = None;
                return Poll::Ready(true);
            }
            let (since, look) = self
                .waiting
                .get_or_insert_with(|| (Instant::now(), Box::pin(sleep(LOOK_EVERY))));
            if since.elapsed() >= WAIT {
                self.refused = true;
                return Poll::Ready(false);
            }
            std::task::ready!(look.as_mut().poll(cx));
            look.as_mut().reset(Instant::now() + LOOK_EVERY);
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Metered<B> {
    type Data = Bytes;
    type Error = Stopped<B::Error>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if !std::task::ready!(self.poll_room(cx)) {
            return Poll::Ready(Some(Err(Stopped::NoRoom)));
        }
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(data) = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()) {
            self.came += data.len();
            if self.came > self.room.bytes {
                let came = self.came;
                self.room.fit(came);
            }
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Stopped::Body)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Bytes of memory that this process may have: those of the machine, or of the control groups it is in.
fn available(root: &Path) -> usize {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).ok();
    let machine = read("proc/meminfo").and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1024)
    });
    let groups = read("proc/self/cgroup").unwrap_or_default();
    let limits = groups.lines().flat_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (kinds, path) = (
            fields.next().unwrap_or_default(),
            fields.next().unwrap_or_default(),
        );
        let (mount, file) = match kinds {
            "" => ("sys/fs/cgroup", "memory.max"),
            _ => ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        };
        let inside = Path::new(path.trim_start_matches('/'));
        // The limit of every group above counts too; inside a container the path may be that of the host.
        inside
            .ancestors()
            .map(|group| PathBuf::from(mount).join(group).join(file))
            .collect::<Vec<_>>()
    });
    let limit = limits
        .filter_map(|path| read(path.to_str()?)?.trim().parse::<usize>().ok())
        .min();
    machine.into_iter().chain(limit).min().unwrap_or(UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::channel::{Channel, Sender};
    use std::convert::Infallible;
    use std::future::poll_fn;

    type Sent = Sender<Bytes, Infallible>;

    fn memory() -> Arc<BodyMemory> {
        Arc::new(BodyMemory {
            used: AtomicUsize::new(0),
            default: 1,
        })
    }

    fn metered(
        length: Option<usize>,
        memory: &Arc<BodyMemory>,
        limit: usize,
    ) -> (Sent, Metered<Channel<Bytes, Infallible>>) {
        let (sender, body) = Channel::new(4);
        (sender, Metered::new(body, length, (memory, limit)))
    }

    async fn next<B>(body: &mut Metered<B>) -> Option<Result<usize, ()>>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await;
        frame.map(|frame| {
            frame
                .map(|frame| frame.data_ref().map_or(0, Bytes::len))
                .map_err(drop)
        })
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_are_counted_as_they_come_and_given_back() {
        let memory = memory();
        let (mut sender, mut body) = metered(Some(300_000), &memory, 1_000_000);
        for (sent, used) in [(100_000, STEP), (100_000, 200_000), (100_000, 300_000)] {
            sender.send_data(vec![0; sent].into()).await.unwrap();
            assert_eq!(next(&mut body).await, Some(Ok(sent)));
            assert_eq!(memory.used(), used);
        }
        drop(sender);
        assert_eq!(next(&mut body).await, None);
        let room = body.into_room();
        assert_eq!(memory.used(), 300_000);
        drop(room);
        assert_eq!(memory.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_waits_for_room_and_then_gives_up() {
        let memory = memory();
        let (_holder, mut holding) = metered(None, &memory, STEP);
        let held = poll_fn(|cx| Poll::Ready(holding.poll_room(cx))).await;
        assert_eq!(held, Poll::Ready(true));
        let (mut sender, mut body) = metered(Some(10), &memory, STEP);
        sender.send_data(vec![0; 10].into()).await.unwrap();
        let began = Instant::now();
        assert_eq!(next(&mut body).await, Some(Err(())));
        assert!(body.refused() && began.elapsed() >= WAIT);
        drop(body);
        let (mut sender, mut body) = metered(Some(10), &memory, STEP);
        sender.send_data(vec![0; 10].into()).await.unwrap();
        let leaving = async {
            sleep(WAIT / 2).await;
            drop(holding);
        };
        let (came, ()) = tokio::join!(next(&mut body), leaving);
        assert_eq!((came, memory.used()), (Some(Ok(10)), 10));
    }

    #[tokio::test]
    async fn an_announced_length_takes_no_room() {
        let memory = memory();
        let (_sender, mut body) = metered(Some(1 << 30), &memory, 1 << 20);
        let frame = poll_fn(|cx| Poll::Ready(Pin::new(&mut body).poll_frame(cx).is_pending())).await;
        assert!(frame);
        assert_eq!(memory.used(), STEP);
    }

    #[test]
    fn the_default_is_a_share_of_what_there_is() {
        let memory = BodyMemory::new();
        assert!(memory.default > 1 << 20);
        assert_eq!(memory.limit(Some(7), 1), 7);
        assert_eq!(memory.limit(None, usize::MAX), usize::MAX);
    }

    #[test]
    fn the_smallest_limit_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(available(root.path()), UNKNOWN);
        write("proc/meminfo", "MemFree: 1 kB\nMemTotal:       4096 kB\n");
        assert_eq!(available(root.path()), 4 << 20);
        write("proc/self/cgroup", "0::/a/b\n");
        write("sys/fs/cgroup/a/b/memory.max", "max\n");
        assert_eq!(available(root.path()), 4 << 20);
        write("sys/fs/cgroup/a/memory.max", "1048576\n");
        assert_eq!(available(root.path()), 1 << 20);
        write("proc/self/cgroup", "9:memory:/docker/x\n0::/\n");
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "65536\n");
        assert_eq!(available(root.path()), 65536);
    }
}
