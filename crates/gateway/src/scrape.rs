//! Reading what engines and GPU exporters say of themselves, at each page's interval, for as long as it has a user.
//!
//! Each page is followed by a task of its own on the keeper thread, on one connection that is kept. A page that cannot be
//! read costs nothing but its signals: they grow old, are shown as stale, and the scheduler goes by the gateway's own
//! counts. Nothing here touches traffic.

mod asked;
mod board;
mod decode;
mod pace;
mod page;

pub(crate) use board::{Board, SignalsAt, Source};
pub(crate) use decode::names;

use crate::gateway::Gateway;
use crate::snapshot::{Snapshot, Upstream};
use board::Found;
use pace::Pace;
use page::{Fault, Page, PageKey};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use tokio::time::{Instant, sleep, sleep_until};
use weighbridge_core::{Event, Time};

/// What is asked for, and who wants to know; shared with the task that asks.
struct Followed {
    wanted: RefCell<Option<(Page, Vec<Arc<Upstream>>)>>,
}

/// Follows the pages of whatever the gateway runs on, for ever.
pub(crate) async fn run(gateway: Arc<Gateway>) {
    let mut followed: HashMap<PageKey, Rc<Followed>> = HashMap::new();
    let mut replaced = gateway.replaced.subscribe();
    loop {
        follow_all(&gateway, &gateway.snapshot_full(), &mut followed);
        // The sender is the gateway's own, which lives as long as this.
        let _ = replaced.changed().await;
    }
}

/// Starts following new pages, tells the others who wants them now, and lets go of those that nobody wants.
fn follow_all(gateway: &Arc<Gateway>, snapshot: &Snapshot, followed: &mut HashMap<PageKey, Rc<Followed>>) {
    let mut wanted: HashMap<PageKey, (Page, Vec<Arc<Upstream>>)> = HashMap::new();
    for upstream in snapshot.upstreams() {
        for page in Page::of(upstream) {
            let entry = wanted.entry(page.key()).or_insert_with(|| (page, Vec::new()));
            entry.1.push(upstream.clone());
        }
    }
    followed.retain(|key, one| {
        let keep = wanted.contains_key(key);
        if !keep {
            one.wanted.replace(None);
        }
        keep
    });
    for (key, pair) in wanted {
        if let Some(one) = followed.get(&key) {
            one.wanted.replace(Some(pair));
            continue;
        }
        let pace = Pace::new(pair.0.interval, &key);
        let one = Rc::new(Followed {
            wanted: RefCell::new(Some(pair)),
        });
        followed.insert(key, one.clone());
        tokio::task::spawn_local(follow(gateway.clone(), one, pace));
    }
}

/// Reads one page again and again until nobody wants it.
async fn follow(gateway: Arc<Gateway>, followed: Rc<Followed>, mut pace: Pace) {
    let mut link = None;
    sleep(pace.first()).await;
    loop {
        let began = Instant::now();
        let wanted = followed.wanted.borrow().clone();
        let Some((page, upstreams)) = wanted else { return };
        let read = page.fetch(&mut link).await;
        let outcome = match read {
            Ok(body) => take(&gateway, (&page, &upstreams), &body),
            Err(fault) => {
                for upstream in &upstreams {
                    failed(upstream, page.source, &fault);
                }
                Err(fault)
            }
        };
        let fault = outcome.err();
        if fault.is_some() {
            link = None;
        }
        let wait = pace.next(page.interval, fault.as_ref());
        sleep_until(began + wait).await;
    }
}

/// Notes what the page says of each endpoint, and tells the scheduler. What it does not say of one, because its rank or
/// its GPU is not there, is the fault of that one; it is the page's where no endpoint can use it.
fn take(gateway: &Gateway, (page, upstreams): (&Page, &[Arc<Upstream>]), body: &[u8]) -> Result<(), Fault> {
    let now = gateway.clock.now();
    let mut outcome = Ok(());
    let mut is_used = false;
    for upstream in upstreams {
        match decode::read(page, upstream, body) {
            Ok(found) => {
                is_used = true;
                note(gateway, (page, upstream), (found, now));
            }
            Err(fault) => {
                failed(upstream, page.source, &fault);
                outcome = Err(fault);
            }
        }
    }
    if is_used { Ok(()) } else { outcome }
}

/// Notes what the page says of one endpoint, and tells the scheduler.
fn note(gateway: &Gateway, (page, upstream): (&Page, &Upstream), (found, now): (Found, Time)) {
    if upstream.signals.read(page.source, (now, page.interval), found) {
        tracing::info!(
            pool = %upstream.pool_name(), endpoint = %upstream.name, page = page.source.as_str(),
            "metrics are read again"
        );
    }
    if let Some(reading) = upstream.signals.to_tell(page.source, now) {
        let reading = Box::new(reading);
        gateway.tell(Event::Scraped {
            endpoint: upstream.id,
            reading,
        });
    }
}

/// Notes a failure, and says so the first time.
fn failed(upstream: &Upstream, source: Source, fault: &Fault) {
    let first = upstream.signals.failed(source, fault.text());
    if !first {
        tracing::debug!(
            pool = %upstream.pool_name(), endpoint = %upstream.name, page = source.as_str(), why = fault.text(),
            "metrics cannot be read"
        );
        return;
    }
    match fault {
        Fault::Absent(why) => tracing::info!(
            pool = %upstream.pool_name(), endpoint = %upstream.name, page = source.as_str(), why,
            "no metrics here: the gateway's own counts are used"
        ),
        Fault::TooLarge(why) => tracing::warn!(
            pool = %upstream.pool_name(), endpoint = %upstream.name, page = source.as_str(), why,
            "the page of metrics is too large to be read: the gateway's own counts are used"
        ),
        Fault::Failing(why) => tracing::warn!(
            pool = %upstream.pool_name(), endpoint = %upstream.name, page = source.as_str(), why,
            "metrics cannot be read: the gateway's own counts are used meanwhile"
        ),
    }
}
