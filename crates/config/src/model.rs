//! The user's file as sections: what may be written, before anything is resolved.

pub(crate) mod keys;
pub(crate) mod policies;
pub(crate) mod pools;
pub(crate) mod routes;
pub(crate) mod server;

use crate::forms::Toggle;
use crate::leaf::Whole;
use crate::read::{At, section, words};

section! {
    /// Configuration of Weighbridge.
    File {
        /// Version of this format.
        version: Whole<1, 1> = 1,
        /// The data plane: where clients connect, and its limits.
        server: server::Server,
        /// The admin API, the console and the metrics; `false`: none.
        admin: Toggle<server::Admin>,
        /// Who may use the data plane. Default: `keys` where keys are given, else `none` on a loopback address; off
        /// loopback one of the two must be written.
        auth: Auth,
        /// What is logged.
        log: server::Log,
        /// Where state is kept that several gateways could share.
        state: State,
        /// Keys of clients.
        keys: Vec<At<keys::Key>>,
        /// Groups of endpoints that serve the same model.
        pools: Vec<At<pools::Pool>>,
        /// Model names that clients use. A pool that no route names is itself a route of its name.
        routes: Vec<At<routes::Route>>,
    }
    required [pools]
    later [otlp, cors, storage, quota_groups, services, classes, passthrough]
}

words! {
    /// Who may use the data plane.
    Auth {
        /// Who shows a key of `keys`.
        Keys = "keys",
        /// Everybody who reaches it.
        None = "none",
    }
}

section! {
    /// Where state is kept.
    State {
        /// The store.
        backend: Backend = "memory",
    }
    later [url, on_failure, timeout]
}

words! {
    /// A store of state.
    Backend {
        /// Memory of the process.
        Memory = "memory",
    }
    later ["redis"]
}
