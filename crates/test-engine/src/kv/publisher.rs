//! Numbered batches, and the two sockets on which an engine publishes them.

use super::encode::batch;
use super::{Event, Style};
use bytes::Bytes;
use std::collections::VecDeque;
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};
use zeromq::{PubSocket, RouterSocket, Socket, SocketRecv, SocketSend, ZmqMessage};

/// A batch as it was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its number.
    pub number: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Numbers batches and keeps the newest for those who missed them.
#[derive(Clone, Debug)]
pub struct Numbering {
    style: Style,
    block_size: usize,
    rank: Option<u32>,
    kept_max: usize,
    next: u64,
    /// The engine's clock, which goes on when the publisher begins anew.
    seconds: f64,
    kept: VecDeque<Sent>,
}

impl Numbering {
    /// From 0, the newest `kept_max` kept.
    #[must_use]
    pub fn new(style: Style, block_size: usize, kept_max: usize) -> Numbering {
        Numbering {
            style,
            block_size,
            rank: None,
            kept_max,
            next: 0,
            seconds: 1000.0,
            kept: VecDeque::new(),
        }
    }

    /// Says this data-parallel rank in every batch.
    pub fn set_rank(&mut self, rank: u32) {
        self.rank = Some(rank);
    }

    /// The next batch.
    pub fn publish(&mut self, events: &[Event]) -> Sent {
        self.seconds += 0.5;
        let bytes = batch(self.style, (self.seconds, self.rank), events, self.block_size);
        let sent = Sent {
            number: self.next,
            bytes,
        };
        self.next += 1;
        self.kept.push_back(sent.clone());
        while self.kept.len() > self.kept_max {
            self.kept.pop_front();
        }
        sent
    }

    /// What a replay from `number` on brings.
    #[must_use]
    pub fn replay(&self, number: u64) -> Vec<Sent> {
        self.kept
            .iter()
            .filter(|sent| sent.number >= number)
            .cloned()
            .collect()
    }

    /// A new process, which knows nothing of the one before.
    pub fn restart(&mut self) {
        self.next = 0;
        self.kept.clear();
    }
}

enum Order {
    Publish(Vec<Event>),
    /// Numbered and kept, but not sent: lost on the way.
    Lose(Vec<Event>),
    /// Sent once more as it was, from this number on.
    Repeat(u64),
    /// Connects or binds anew; a new life if so.
    Again {
        restart: bool,
    },
}

/// A publisher on real sockets: a PUB that connects or binds, and a ROUTER.
pub struct Publisher {
    orders: Option<mpsc::UnboundedSender<Order>>,
    thread: Option<JoinHandle<()>>,
    /// Where its replay socket listens, if it has one.
    pub replay: Option<String>,
}

/// Where a publisher publishes.
#[derive(Clone, Debug)]
pub struct Place {
    /// `tcp://address:port`.
    pub address: String,
    /// Whether it listens there, or connects.
    pub bind: bool,
    /// Whether it has a replay socket.
    pub replay: bool,
}

impl Publisher {
    /// Begins. Returns once the replay socket listens.
    ///
    /// # Panics
    ///
    /// When a socket cannot be had.
    #[must_use]
    pub fn start(place: Place, numbering: Numbering) -> Publisher {
        let (orders, receiver) = mpsc::unbounded_channel();
        let (started, ready) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("kv-publisher".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("runtime");
                runtime.block_on(run(place, numbering, receiver, started));
            })
            .expect("a thread");
        let replay = ready.blocking_recv().expect("the publisher starts");
        Publisher {
            orders: Some(orders),
            thread: Some(thread),
            replay,
        }
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            orders.send(order).expect("the publisher runs");
        }
    }

    /// Publishes a batch.
    pub fn publish(&self, events: Vec<Event>) {
        self.order(Order::Publish(events));
    }

    /// Publishes a batch that gets lost.
    pub fn lose(&self, events: Vec<Event>) {
        self.order(Order::Lose(events));
    }

    /// Publishes again what it keeps from this number on.
    pub fn repeat(&self, number: u64) {
        self.order(Order::Repeat(number));
    }

    /// Loses its connection and makes it again.
    pub fn reconnect(&self) {
        self.order(Order::Again { restart: false });
    }

    /// Begins anew.
    pub fn restart(&self) {
        self.order(Order::Again { restart: true });
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

async fn run(
    place: Place,
    mut numbering: Numbering,
    mut orders: mpsc::UnboundedReceiver<Order>,
    started: oneshot::Sender<Option<String>>,
) {
    let mut router = RouterSocket::new();
    let replay = if place.replay {
        Some(
            router
                .bind("tcp://127.0.0.1:0")
                .await
                .expect("a replay socket")
                .to_string(),
        )
    } else {
        None
    };
    drop(started.send(replay.clone()));
    let mut publisher = publisher(&place).await;
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                None => return,
                Some(Order::Publish(events)) => {
                    let sent = numbering.publish(&events);
                    publisher.send(message(vec![Bytes::new()], &sent)).await.expect("published");
                }
                Some(Order::Lose(events)) => drop(numbering.publish(&events)),
                Some(Order::Repeat(number)) => {
                    for sent in numbering.replay(number) {
                        publisher.send(message(vec![Bytes::new()], &sent)).await.expect("published");
                    }
                }
                Some(Order::Again { restart }) => {
                    if restart {
                        numbering.restart();
                    }
                    drop(publisher);
                    publisher = self::publisher(&place).await;
                }
            },
            request = router.recv(), if replay.is_some() => {
                let request = request.expect("a request").into_vec();
                let [client, empty, number] = request.as_slice() else { panic!("{request:?}") };
                let number = u64::from_be_bytes(number.as_ref().try_into().expect("eight bytes"));
                let head = || vec![client.clone(), empty.clone(), Bytes::new()];
                let end = Sent { number: u64::MAX, bytes: Vec::new() };
                for sent in numbering.replay(number).into_iter().chain([end]) {
                    // Whoever asked may have left.
                    drop(router.send(message(head(), &sent)).await);
                }
            }
        }
    }
}

async fn publisher(place: &Place) -> PubSocket {
    // The socket before it lets go of its port a moment after it is dropped.
    for _ in 0..500 {
        let mut socket = PubSocket::new();
        let done = if place.bind {
            socket.bind(&place.address).await.map(drop)
        } else {
            socket.connect(&place.address).await
        };
        if done.is_ok() {
            return socket;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("{} cannot be had", place.address)
}

fn message(mut parts: Vec<Bytes>, sent: &Sent) -> ZmqMessage {
    parts.push(Bytes::copy_from_slice(&sent.number.to_be_bytes()));
    parts.push(Bytes::copy_from_slice(&sent.bytes));
    ZmqMessage::try_from(parts).expect("parts")
}
