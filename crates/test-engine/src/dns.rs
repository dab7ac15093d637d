//! A name server on loopback that says what a test wants it to say, over UDP.

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, SRV};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the server looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// What is said of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// These records; of other types there are none.
    Records(Vec<Entry>),
    /// There is no such name, as of any name that nothing was said of.
    NoSuchName,
    /// The server has failed.
    ServFail,
    /// Nothing, until the asker gives up.
    Silence,
}

/// A record, with seconds to live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A or AAAA.
    Address(u32, IpAddr),
    /// Priority and weight, port, target.
    Service(u32, (u16, u16), u16, String),
}

/// A running name server; dropping it ends it.
pub struct DnsServer {
    address: SocketAddr,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    names: Mutex<HashMap<String, Said>>,
    asked: Mutex<HashMap<String, usize>>,
    ends: AtomicBool,
}

impl DnsServer {
    /// A server that knows no name yet.
    pub fn start() -> DnsServer {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a UDP port");
        socket.set_read_timeout(Some(LOOK)).expect("a timeout");
        let address = socket.local_addr().expect("an address");
        let state = Arc::<State>::default();
        let serving = state.clone();
        DnsServer {
            address,
            state,
            thread: Some(std::thread::spawn(move || serve(&socket, &serving))),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Says this of `name` from now on.
    pub fn say(&self, name: &str, said: Said) {
        lock(&self.state.names).insert(name.to_owned(), said);
    }

    /// Says that `name` has these addresses, for `ttl` seconds.
    pub fn addresses(&self, name: &str, ttl: u32, addresses: &[&str]) {
        let entry = |address: &&str| Entry::Address(ttl, address.parse().expect("an IP address"));
        self.say(name, Said::Records(addresses.iter().map(entry).collect()));
    }

    /// How often it was asked about `name`, whatever the type.
    pub fn asked(&self, name: &str) -> usize {
        lock(&self.state.asked).get(name).copied().unwrap_or(0)
    }
}

impl Drop for DnsServer {
    fn drop(&mut self) {
        self.state.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(socket: &UdpSocket, state: &State) {
    let mut buffer = [0; 4096];
    while !state.ends.load(Ordering::Relaxed) {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        let question = Message::from_vec(&buffer[..length]).expect("a DNS message");
        if let Some(answer) = answer(state, &question) {
            let _ = socket.send_to(&answer.to_vec().expect("an answer that can be written"), from);
        }
    }
}

fn answer(state: &State, question: &Message) -> Option<Message> {
    let query = question.queries.first()?;
    let name = query.name().to_ascii().trim_end_matches('.').to_ascii_lowercase();
    *lock(&state.asked).entry(name.clone()).or_default() += 1;
    let said = lock(&state.names).get(&name).cloned().unwrap_or(Said::NoSuchName);
    let mut answer = Message::new(question.metadata.id, MessageType::Response, OpCode::Query);
    answer.metadata.recursion_desired = question.metadata.recursion_desired;
    answer.metadata.recursion_available = true;
    answer.add_query(query.clone());
    match said {
        Said::Silence => return None,
        Said::ServFail => answer.metadata.response_code = ResponseCode::ServFail,
        Said::NoSuchName => answer.metadata.response_code = ResponseCode::NXDomain,
        Said::Records(entries) => {
            answer.add_answers(entries.iter().filter_map(|entry| record(query, entry)));
        }
    }
    Some(answer)
}

fn record(query: &Query, entry: &Entry) -> Option<Record> {
    let (ttl, data) = match entry {
        Entry::Address(ttl, IpAddr::V4(address)) => (*ttl, RData::A(A(*address))),
        Entry::Address(ttl, IpAddr::V6(address)) => (*ttl, RData::AAAA(AAAA(*address))),
        Entry::Service(ttl, (priority, weight), port, target) => {
            let target = Name::from_str(target).expect("a name");
            (*ttl, RData::SRV(SRV::new(*priority, *weight, *port, target)))
        }
    };
    let fits = query.query_type() == data.record_type() || query.query_type() == RecordType::ANY;
    fits.then(|| Record::from_rdata(query.name().clone(), ttl, data))
}
