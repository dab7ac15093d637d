//! Where an endpoint is: its addresses, and a connection to one of them.

use super::own::Own;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};
use weighbridge_config::resolved::BaseUrl;

/// How long addresses that were looked up are taken without asking again. The system does not say how long they hold.
const FRESH: Duration = Duration::from_secs(1);
/// How long one address is waited for until the next is tried as well (RFC 8305 calls it Connection Attempt Delay).
const STAGGER: Duration = Duration::from_millis(250);

/// The addresses of one endpoint.
pub(crate) struct Addresses {
    host: String,
    port: u16,
    /// Those that need no question.
    fixed: Option<Arc<[SocketAddr]>>,
    known: Mutex<Option<Known>>,
}

#[derive(Clone)]
struct Known {
    addresses: Arc<[SocketAddr]>,
    at: Instant,
}

/// Asks for the addresses of a host.
type Answer = io::Result<Arc<[SocketAddr]>>;

impl Addresses {
    /// Of the host of `url`, which is at `given` where those are known.
    pub(crate) fn new(url: &BaseUrl, given: &[SocketAddr]) -> Self {
        let literal = url.host.parse::<IpAddr>().ok();
        let fixed = match literal {
            _ if !given.is_empty() => Some(given.into()),
            Some(address) => Some([SocketAddr::new(address, url.port)].into()),
            None => None,
        };
        Self {
            host: url.host.clone(),
            port: url.port,
            fixed,
            known: Mutex::new(None),
        }
    }

    /// The addresses that need no question, to tell endpoints of one name apart.
    pub(crate) fn shown(&self) -> String {
        let fixed = self.fixed.as_deref().unwrap_or_default();
        let texts: Vec<String> = fixed.iter().map(ToString::to_string).collect();
        texts.join(" ")
    }

    /// Connects to the first address that takes it; the caller bounds the time. A name whose known addresses all fail is
    /// looked up again at once, since the engine may have moved.
    /// Addresses of the gateway itself, which `own` tells, take none.
    pub(crate) async fn connect(&self, own: &Own) -> io::Result<TcpStream> {
        let connect = |address| own.connect(address);
        match &self.fixed {
            Some(fixed) => first_of(fixed, connect).await,
            None => self.connect_by_name(|| self.look_up(), connect).await,
        }
    }

    async fn look_up(&self) -> Answer {
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await?;
        Ok(found.collect())
    }

    async fn connect_by_name<S, L, C>(
        &self,
        look_up: impl Fn() -> L,
        connect: impl Fn(SocketAddr) -> C,
    ) -> io::Result<S>
    where
        L: Future<Output = Answer>,
        C: Future<Output = io::Result<S>>,
    {
        let known = self.known();
        let fresh = known.as_ref().filter(|known| known.at.elapsed() < FRESH);
        let Some(fresh) = fresh else {
            let addresses = match (look_up().await, known) {
                (Ok(addresses), _) => self.learn(addresses),
                // What was true a while ago is better than nothing.
                (Err(_), Some(known)) => known.addresses,
                (Err(error), None) => return Err(error),
            };
            return first_of(&addresses, connect).await;
        };
        let error = match first_of(&fresh.addresses, &connect).await {
            Ok(stream) => return Ok(stream),
            Err(error) => error,
        };
        let Ok(addresses) = look_up().await else {
            return Err(error);
        };
        let others: Vec<_> = (addresses.iter().copied())
            .filter(|address| !fresh.addresses.contains(address))
            .collect();
        self.learn(addresses);
        if others.is_empty() {
            return Err(error);
        }
        first_of(&others, connect).await
    }

    fn known(&self) -> Option<Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn learn(&self, addresses: Arc<[SocketAddr]>) -> Arc<[SocketAddr]> {
        let known = Known {
            addresses: addresses.clone(),
            at: Instant::now(),
        };
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
        addresses
    }
}

/// The first connection that is made, trying the addresses in their order: the next one when one has failed, or has not
/// been heard of for a while.
async fn first_of<S, C>(addresses: &[SocketAddr], connect: impl Fn(SocketAddr) -> C) -> io::Result<S>
where
    C: Future<Output = io::Result<S>>,
{
    if let [address] = addresses {
        return connect(*address).await;
    }
    let mut left = addresses.iter();
    let mut trying: Vec<Pin<Box<C>>> = Vec::new();
    let mut failure = None;
    let mut wait: Pin<&mut Sleep> = pin!(sleep(Duration::ZERO));
    poll_fn(|cx| {
        loop {
            let mut failed = false;
            let mut index = 0;
            while let Some(one) = trying.get_mut(index) {
                match one.as_mut().poll(cx) {
                    Poll::Ready(Ok(stream)) => return Poll::Ready(Ok(stream)),
                    Poll::Ready(Err(error)) => {
                        failure = Some(error);
                        failed = true;
                        trying.swap_remove(index);
                    }
                    Poll::Pending => index += 1,
                }
            }
            let due = failed || trying.is_empty() || wait.as_mut().poll(cx).is_ready();
            match if due { left.next() } else { None } {
                Some(next) => {
                    trying.push(Box::pin(connect(*next)));
                    wait.as_mut().reset(Instant::now() + STAGGER);
                }
                None if trying.is_empty() => {
                    let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                    return Poll::Ready(Err(failure.take().unwrap_or_else(none)));
                }
                None => return Poll::Pending,
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests;
