//! A scriptable inference server that answers like an engine and misbehaves on demand.
//!
//! Each [`Upstream`] has a port, a thread, a log, a script and counters of its own. Every answer carries
//! `x-mock-name: NAME`, and the text of a completion begins with `NAME: `, so that a test can see who served it.
//!
//! # How a request gets its mode (first that applies)
//! 1. The next entry of the script (POST only): [`Upstream::script`] or `POST /__script ["status=429", "", …]`.
//!    An empty entry is used up and leaves the choice to the rest of this list.
//! 2. The request header `x-mock`.
//! 3. The last `[[mock:MODE]]` in the body, which gets through any gateway.
//! 4. What follows `@@` in the model's name.
//! 5. The default mode: [`Upstream::set_mode`] or `POST /__set {"mode": "MODE"}`.
//!
//! # Modes
//! `key=value,key=value`; a key alone means `key=1`; `%2C` in a value is a comma. Times are seconds.
//!
//! | about | keys |
//! |---|---|
//! | status | `status=N` `retry_after=V` `err_type=T` `err_msg=M` `body=openai\|anthropic\|detail\|html\|text\|empty\|badjson` `redirect=URL` `ok_error` (status 200, only an error in the body) |
//! | headers | `h.NAME=VALUE` (repeatable) `ctype=TYPE` `conn_close` |
//! | time | `delay` (before the head) `delay_body` (after it) `gap` (after each event) `jitter` (added to both `delay` and `gap`, at random) `keepalive_idle` (close an idle connection after) |
//! | size | `chunks=N` (text events) `text=T` `big=N` (characters of text) `unicode` `empty_content` |
//! | stream end | `cut=N` (die after N events) `cut_kind=fin\|rst\|clean` `hang=headers\|body\|N` `nodone` `no_terminal` `error_event=N` `error_code=N` |
//! | events | `split=N` (bytes per write) `split_delay` `coalesce` `crlf` `cr` `nospace` `multiline` `sse_id` `comments=N` `comment_gap` `comment_every=N` |
//! | coding | `gzip[=force]` `deflate[=force]` |
//! | framing | `proto10` `close_delimited` `both` (length and chunks) `short=N` (claims N bytes too many) `early` (answers before it reads the body) `drop[=rst]` (closes without a byte) |
//! | usage | `usage` (chunk even if not asked for) `usage_null` `nousage` `usage_in=N` `usage_out=N` `cached=N` `empty_choices` |
//! | content | `echo` (text is the request as received) `tool[=N]` `tool_args=JSON` `tool_noargs` `reasoning` `late_reasoning` `refusal` `finish=F` `stop_hit=S` `bigint` `nan` `notjson_stream` (one JSON body though a stream was asked for) |
//!
//! | HTTP/2 only | `rst=CODE` (RST_STREAM before the head, or where `cut` says; a name such as `REFUSED_STREAM`, or a number) `goaway=CODE` (GOAWAY that disowns all streams) `silent` (the connection says and hears nothing any more) `garbage` (a frame that breaks the protocol) |
//!
//! # HTTP/2
//! A client that begins with the preface of HTTP/2 is spoken to in it, on the same port; TLS is a [`TlsFront`] before
//! the upstream. `cut` and `drop` reset the stream, with `cut_kind=rst` and `drop=rst` the connection; what is about
//! the framing of HTTP/1 means nothing. [`Upstream::set_http2`] says how connections behave, and refuses streams.
//!
//! # Control endpoints (never logged)
//! `GET /__log[?clear=1]`, `GET /__all` (all upstreams of the process, by time), `GET /__stats`, `POST /__reset`,
//! `POST /__script`, `POST /__set` (`mode`, `health`, `metrics`, `metrics_status`, `running`, `waiting`, `kv`, `models`, `http2`),
//! `POST /__refuse?s=5`.

mod answer;
mod conn;
mod control;
mod encode;
mod events;
mod http2;
mod jitter;
mod listen;
mod media;
mod mode;
mod record;
mod reply;
mod serve;
mod shapes;
mod sse;
mod state;
mod tls;

pub use http2::Http2;
pub use record::Record;
pub use state::Stats;
pub use tls::{TlsFront, TlsOptions};

use listen::Reserved;
use mode::Mode;
use state::{Order, Shared};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// How an [`Upstream`] starts.
#[derive(Clone, Debug)]
pub struct Options {
    /// Stands in every answer.
    pub name: String,
    /// Address to listen on, loopback as a rule: `127.0.0.1` or `::1`.
    pub host: IpAddr,
    /// Port to listen on; 0 takes a free one.
    pub port: u16,
    /// Mode keys for every answer, below those of the request's own mode, and kept by [`Upstream::reset`].
    /// `"proto10"` makes an HTTP/1.0 server.
    pub always: String,
}

impl Options {
    /// An upstream on a free port of 127.0.0.1.
    pub fn new(name: &str) -> Options {
        Options {
            name: name.to_owned(),
            host: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            always: String::new(),
        }
    }
}

/// A running upstream; dropping it closes its port and connections.
pub struct Upstream {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Upstream {
    /// Starts an upstream on a free port of 127.0.0.1.
    pub fn start(name: &str) -> Upstream {
        Upstream::start_with(&Options::new(name))
    }

    /// Starts one upstream per name.
    pub fn start_all<const N: usize>(names: [&str; N]) -> [Upstream; N] {
        names.map(Upstream::start)
    }

    /// Starts an upstream; it listens when this returns.
    ///
    /// # Panics
    /// If the port cannot be had.
    pub fn start_with(options: &Options) -> Upstream {
        let addr = SocketAddr::new(options.host, options.port);
        let (tell, told) = mpsc::channel();
        let (name, base) = (options.name.clone(), Mode::parse(&options.always));
        let thread = std::thread::Builder::new()
            .name(format!("upstream-{name}"))
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a runtime");
                runtime.block_on(async {
                    let reserved = Reserved::bind(addr).unwrap_or_else(|e| panic!("cannot bind {addr}: {e}"));
                    let (shared, orders) = Shared::new(&name, reserved.addr, base);
                    let _ = tell.send(shared.clone());
                    listen::run(shared, orders).await;
                });
            });
        let shared = told
            .recv()
            .unwrap_or_else(|_| panic!("the upstream could not bind {addr}"));
        let upstream = Upstream {
            shared,
            thread: Some(thread.expect("a thread")),
        };
        upstream.revive();
        upstream
    }

    /// Name given at start.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// `http://HOST:PORT`, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.shared.addr)
    }

    /// The port; it stays the same while the upstream lives, listening or not.
    pub fn port(&self) -> u16 {
        self.shared.addr.port()
    }

    /// The address.
    pub fn addr(&self) -> SocketAddr {
        self.shared.addr
    }

    /// All requests since the last reset, in order of arrival: probes too. A client may have its whole answer a
    /// moment before the record says how the request ended; [`Upstream::wait_idle`] first, where that matters.
    pub fn log(&self) -> Vec<Record> {
        self.shared.log()
    }

    /// The requests that are not probes: those with method POST.
    pub fn posts(&self) -> Vec<Record> {
        self.log().into_iter().filter(|r| r.method == "POST").collect()
    }

    /// Waits until at least `n` POSTs have arrived and gives all that have.
    ///
    /// # Panics
    /// If fewer have arrived after `within`.
    pub fn wait_posts(&self, n: usize, within: Duration) -> Vec<Record> {
        let came = crate::eventually(within, || self.posts().len() >= n);
        let posts = self.posts();
        assert!(
            came,
            "{} got {} of {n} requests within {within:?}",
            self.name(),
            posts.len()
        );
        posts
    }

    /// Waits until nothing is being answered.
    ///
    /// # Panics
    /// If something still is after `within`.
    pub fn wait_idle(&self, within: Duration) {
        let idle = crate::eventually(within, || self.stats().in_flight == 0);
        assert!(
            idle,
            "{} is still answering after {within:?}: {:?}",
            self.name(),
            self.stats()
        );
    }

    /// Counters.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Forgets log, script, settings and counters. Connections and running answers stay.
    pub fn reset(&self) {
        self.shared.reset();
    }

    /// Sets the modes of the next POSTs, one each, in place of the script so far.
    pub fn script<S: AsRef<str>>(&self, modes: impl IntoIterator<Item = S>) {
        self.shared.lock().script = modes.into_iter().map(|m| Some(m.as_ref().to_owned())).collect();
    }

    /// Sets the mode of requests that bring none.
    pub fn set_mode(&self, mode: &str) {
        mode.clone_into(&mut self.shared.lock().settings.mode);
    }

    /// Sets how connections of HTTP/2 behave that are made from now on, and how many of the next streams are refused.
    pub fn set_http2(&self, http2: Http2) {
        self.shared.lock().settings.http2 = http2;
    }

    /// Sets the status of `/health` and its like.
    pub fn set_health(&self, status: u16) {
        self.shared.lock().settings.health = status;
    }

    /// Sets what `/v1/models` lists.
    pub fn set_models(&self, models: &[&str]) {
        self.shared.lock().settings.models = models.iter().map(|&m| m.to_owned()).collect();
    }

    /// Sets what `/metrics` and `/load` claim, instead of the truth.
    pub fn set_load(&self, running: f64, waiting: f64) {
        let mut s = self.shared.lock();
        s.settings.running = Some(running);
        s.settings.waiting = waiting;
    }

    /// Sets the page that `/metrics` gives. `$in_flight` in it becomes the requests being answered, `$total` all so far.
    pub fn set_metrics(&self, page: &str) {
        self.shared.lock().settings.metrics = Some(page.to_owned());
    }

    /// Sets the status of `/metrics`.
    pub fn set_metrics_status(&self, status: u16) {
        self.shared.lock().settings.metrics_status = status;
    }

    /// Stops listening for `time`, then listens again by itself. Connections are refused meanwhile, idle ones
    /// are closed, busy ones are closed after their answer. Returns when it has stopped.
    pub fn refuse(&self, time: Duration) {
        self.order(|done| Order::Stop { kill: false, done });
        let shared = self.shared.clone();
        std::thread::spawn(move || {
            std::thread::sleep(time);
            order(&shared, |done| Order::Listen { done });
        });
    }

    /// As [`Upstream::refuse`], until the guard is dropped.
    pub fn refuse_until(&self) -> RefuseGuard {
        self.order(|done| Order::Stop { kill: false, done });
        RefuseGuard(self.shared.clone())
    }

    /// Dies as a killed process does: resets every connection and stops listening. Returns when it is dead; log
    /// and counters can still be read.
    pub fn kill(&self) {
        self.order(|done| Order::Stop { kill: true, done });
    }

    /// Listens again on the same port after [`Upstream::kill`].
    pub fn revive(&self) {
        self.order(|done| Order::Listen { done });
    }

    fn order(&self, make: impl FnOnce(oneshot::Sender<()>) -> Order) {
        order(&self.shared, make);
    }
}

/// Gives an order to the thread of the upstream and waits until it has been carried out. Waits on a plain channel
/// so that it may be called from within a runtime too.
fn order(shared: &Shared, make: impl FnOnce(oneshot::Sender<()>) -> Order) {
    let (done, mut carried_out) = oneshot::channel();
    if shared.orders.send(make(done)).is_err() {
        return;
    }
    while carried_out.try_recv() == Err(oneshot::error::TryRecvError::Empty) {
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Lets an upstream listen again when dropped; see [`Upstream::refuse_until`].
#[must_use = "dropping the guard lets the upstream listen again"]
pub struct RefuseGuard(Arc<Shared>);

impl Drop for RefuseGuard {
    fn drop(&mut self) {
        order(&self.0, |done| Order::Listen { done });
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.shared.orders.send(Order::Quit);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
