//! `server`, `admin` and `log`.

use crate::address::{Address, Range};
use crate::leaf::{Name, Size, Span, Text, Whole};
use crate::paths::PassedPath;
use crate::read::{At, FromNode, Reader, section, unknown, words};
use crate::secret::MaybeSecret;
use crate::yaml::{NodeId, Shape};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

section! {
    /// The data plane: where clients connect, and its limits.
    Server {
        /// Address and port for `/v1/*`, `/health` and `/ready`.
        listen: Address = "127.0.0.1:8800",
        /// TLS towards clients: HTTP/2 and HTTP/1.1, TLS 1.2 and 1.3. Default: none.
        tls: ServerTls,
        /// Largest request body.
        max_body: Size = "32MiB",
        /// Most memory for the bodies of all requests that are being read or served, and up to half of it for answers
        /// that wait for their clients. Beyond it a new request waits for up to a second, and is then refused with 503. Default: a quarter of the memory that the process may have.
        body_memory: Size,
        /// Most client connections at once.
        max_connections: Whole<1, 1_000_000> = 20_000,
        /// How long new requests are still served after SIGTERM, with `/ready` at 503.
        drain_delay: Span = "0s",
        /// How long running requests may go on after that.
        drain_timeout: Span = "30s",
        /// Addresses of proxies in front, whose `x-forwarded-for` counts.
        trusted_proxies: Vec<At<Range>> = [] as [&str; 0],
        /// Which `x-weighbridge-*` headers clients get. Default: `full` on a loopback address, else `minimal`.
        headers: Headers,
        /// Further paths that go to engines as they are, such as `/tokenize`, or `/classify/*` for all below one. Routed by
        /// `model` in a JSON body or by the header `x-model`; without either where only one route is served.
        passthrough: Vec<At<PassedPath>> = [] as [&str; 0],
        /// The zone that this gateway runs in.
        zone: Name,
    }
}

section! {
    /// TLS towards clients. The files are read again when they change; connections that are open go on.
    ServerTls {
        /// PEM file of the certificate, followed by those that lead to its authority.
        cert: Text,
        /// PEM file of its key.
        key: Text,
        /// PEM file of the authorities that sign clients' certificates. With it, nobody gets in without one.
        client_ca: Text,
    }
    required [cert, key]
}

words! {
    /// Which headers clients get.
    Headers {
        /// Everything: route, target, endpoint, attempts, time.
        Full = "full",
        /// Only `x-request-id`: nothing about the topology.
        Minimal = "minimal",
    }
}

section! {
    /// The admin API, the console and the metrics.
    Admin {
        /// Address and port.
        listen: Address = "127.0.0.1:8801",
        /// The token that opens it. Without one, one is made at start and put into a file that only its owner can read.
        token: MaybeSecret,
    }
}

section! {
    /// What is logged.
    Log {
        /// Least severity of messages.
        level: Level = "info",
        /// Which requests get a line: `all`, `errors`, or a share from 0 to 1. Failures always do.
        requests: Requests = "all",
        /// Slow requests always get a line: a number is the per cent that are slowest, a time such as `2s` is a
        /// limit.
        slow: Slow = 1.0,
    }
}

words! {
    /// Severity of a message.
    Level {
        /// What failed.
        Error = "error",
        /// What may fail.
        Warn = "warn",
        /// What happened.
        Info = "info",
        /// How it happened.
        Debug = "debug",
        /// Every step.
        Trace = "trace",
    }
}

/// Which requests get a log line.
pub(crate) enum Requests {
    All,
    Errors,
    Share(f64),
}

impl FromNode for Requests {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        if reader.tree.shape(node) == Shape::Number {
            return reader
                .read::<crate::leaf::Share>(node)
                .map(|share| Self::Share(share.value.0));
        }
        let text = reader.text(node, "text (all or errors), or a share from 0 to 1,")?;
        match text.as_str() {
            "all" => Some(Self::All),
            "errors" => Some(Self::Errors),
            _ => {
                let (message, hint) = unknown(
                    &reader.written(node),
                    "word",
                    &["all", "errors", "a share from 0 to 1"],
                );
                reader.problem(node, message, hint);
                None
            }
        }
    }
}

impl JsonSchema for Requests {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Requests".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"type": "string", "enum": ["all", "errors"]}, {"type": "number", "minimum": 0, "maximum": 1}]})
    }
}

/// Which requests count as slow.
pub(crate) enum Slow {
    /// The slowest per cent.
    PerCent(f64),
    /// What takes longer.
    Over(std::time::Duration),
}

impl FromNode for Slow {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        if reader.tree.shape(node) == Shape::Number {
            let share = reader.read::<crate::leaf::Number<0, 100_000>>(node);
            return share.map(|share| Self::PerCent(share.value.0));
        }
        reader.read::<Span>(node).map(|span| Self::Over(span.value.0))
    }
}

impl JsonSchema for Slow {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Slow".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"type": "number", "minimum": 0, "maximum": 100}, generator.subschema_for::<Span>()]})
    }
}
