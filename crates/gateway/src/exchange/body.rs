//! Reading a request's body: all of it, within bounds of size and time.

use bytes::{Bytes, BytesMut};
use http_body::Body;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::io::ErrorKind;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Longest wait for the next piece.
const PIECE_WAIT: Duration = Duration::from_secs(30);
/// What every body may take; what takes longer must have come at [`SLOWEST`] so far.
const ANY_BODY: Duration = Duration::from_secs(30);
/// Bytes per second.
const SLOWEST: usize = 1024;
/// What a body without a length is gathered in, bytes.
const BLOCK: usize = 128 * 1024;

/// Why there is no whole body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is larger than allowed.
    TooLarge,
    /// Its chunks are no chunks.
    Malformed,
    /// It came too slowly, or no more of it came.
    Slow,
    /// The client closed its connection, or its sending half, before the end.
    BrokeOff,
    /// The gateway's own end came first.
    Over,
}

/// Reads `body`, of which its head said the length `said`, if any, and of which `most` bytes are allowed, until `over`.
pub(crate) async fn collect<B>(
    mut body: B,
    (said, most): (Option<usize>, usize),
    over: impl Fn() -> bool,
) -> Result<Bytes, Fault>
where
    B: Body<Data = Bytes, Error: Error + 'static> + Unpin,
{
    if said.is_some_and(|length| length > most) {
        return Err(Fault::TooLarge);
    }
    let began = Instant::now();
    let mut gathered = Gathered::new(said);
    loop {
        let mut late = pin!(sleep_until(latest(began, gathered.len)));
        let frame = poll_fn(|cx| match Pin::new(&mut body).poll_frame(cx) {
            Poll::Ready(frame) => Poll::Ready(Ok(frame)),
            Poll::Pending if over() => Poll::Ready(Err(Fault::Over)),
            Poll::Pending => late.as_mut().poll(cx).map(|()| Err(Fault::Slow)),
        });
        let Some(frame) = frame.await? else { break };
        let frame = frame.map_err(|error| broken(&error))?;
        let Ok(data) = frame.into_data() else { continue };
        if gathered.len + data.len() > most {
            return Err(Fault::TooLarge);
        }
        gathered.add(data);
    }
    Ok(gathered.whole())
}

/// Pieces on their way to one body.
///
/// A body that comes in one piece, as most do, is never copied. One of known length is copied once. Others are gathered
/// in blocks rather than in one buffer that doubles, so that one which turns out too large costs little more than its
/// own size.
struct Gathered {
    said: Option<usize>,
    len: usize,
    first: Bytes,
    blocks: Vec<BytesMut>,
}

impl Gathered {
    fn new(said: Option<usize>) -> Self {
        Self {
            said,
            len: 0,
            first: Bytes::new(),
            blocks: Vec::new(),
        }
    }

    fn add(&mut self, data: Bytes) {
        if self.len == 0 {
            self.len = data.len();
            self.first = data;
            return;
        }
        self.len += data.len();
        let first = std::mem::take(&mut self.first);
        self.copy(&first);
        self.copy(&data);
    }

    fn copy(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            match self.blocks.last_mut() {
                Some(block) if block.len() < block.capacity() => {
                    let room = block.capacity() - block.len();
                    let (now, later) = data.split_at(room.min(data.len()));
                    block.extend_from_slice(now);
                    data = later;
                }
                _ => self
                    .blocks
                    .push(BytesMut::with_capacity(self.said.unwrap_or(BLOCK).max(1))),
            }
        }
    }

    fn whole(mut self) -> Bytes {
        match (self.blocks.len(), self.blocks.pop()) {
            (_, None) => self.first,
            (1, Some(only)) => only.freeze(),
            (_, Some(last)) => {
                let mut whole = BytesMut::with_capacity(self.len);
                self.blocks
                    .iter()
                    .for_each(|block| whole.extend_from_slice(block));
                whole.extend_from_slice(&last);
                whole.freeze()
            }
        }
    }
}

/// When a body that began at `began`, and of which `len` bytes have come, the last of them now, must have gone on.
pub(crate) fn latest(began: Instant, len: usize) -> Instant {
    let slowest = ANY_BODY + Duration::from_secs((len / SLOWEST) as u64);
    (began + slowest).min(Instant::now() + PIECE_WAIT)
}

/// What an error of the codec says of the client.
pub(crate) fn broken(error: &(dyn Error + 'static)) -> Fault {
    let kind = error.source().and_then(|source| source.downcast_ref());
    match kind.map(std::io::Error::kind) {
        Some(ErrorKind::InvalidInput | ErrorKind::InvalidData) => Fault::Malformed,
        _ => Fault::BrokeOff,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::channel::Channel;
    use std::convert::Infallible;

    /// Sends `pieces` of `len` bytes, one every `gap`, then stops without an end.
    async fn collected(pieces: usize, len: usize, gap: Duration) -> (Result<Bytes, Fault>, Duration) {
        let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
        let sending = async move {
            for _ in 0..pieces {
                tokio::time::sleep(gap).await;
                if sender.send_data(vec![b'x'; len].into()).await.is_err() {
                    return;
                }
            }
            std::future::pending::<()>().await;
        };
        let began = Instant::now();
        tokio::select! {
            () = sending => unreachable!("it never ends"),
            body = collect(body, (None, 1 << 20), || false) => (body, began.elapsed()),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_coming_is_given_up() {
        let (body, took) = collected(3, 100_000, Duration::from_secs(5)).await;
        assert_eq!((body, took.as_secs()), (Err(Fault::Slow), 15 + 30));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_drips_is_given_up() {
        let (body, took) = collected(1000, 10, Duration::from_secs(1)).await;
        assert_eq!((body, took.as_secs()), (Err(Fault::Slow), 30));
        // At twice the slowest rate it may go on, up to the largest size.
        let (body, took) = collected(2000, 2048, Duration::from_secs(1)).await;
        assert_eq!((body, took.as_secs()), (Err(Fault::TooLarge), 513));
    }

    #[tokio::test(start_paused = true)]
    async fn the_gateways_end_ends_it() {
        let (_sender, body) = Channel::<Bytes, Infallible>::new(1);
        assert_eq!(collect(body, (None, 10), || true).await, Err(Fault::Over));
    }

    #[test]
    fn blocks_keep_order_and_length() {
        for said in [None, Some(300_000)] {
            let mut gathered = Gathered::new(said);
            let all: Vec<u8> = (0..300_000_u32).flat_map(|i| u8::try_from(i % 251)).collect();
            all.chunks(7_001)
                .for_each(|piece| gathered.add(Bytes::copy_from_slice(piece)));
            assert_eq!(gathered.len, all.len());
            assert!(gathered.whole() == all);
        }
    }

    #[tokio::test]
    async fn pieces_make_one_body() {
        for (said, pieces) in [
            (None, vec!["ab", "", "cd", "e"]),
            (Some(5), vec!["abcde"]),
            (Some(5), vec!["a", "bcde"]),
        ] {
            let (mut sender, body) = Channel::<Bytes, Infallible>::new(8);
            for piece in &pieces {
                sender
                    .send_data(Bytes::copy_from_slice(piece.as_bytes()))
                    .await
                    .unwrap();
            }
            drop(sender);
            assert_eq!(
                collect(body, (said, 5), || false).await.unwrap(),
                "abcde",
                "{pieces:?}"
            );
        }
    }
}
