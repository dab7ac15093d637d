//! Everything that is served, in one list. The router, the check of who may ask, the names that a query may hold and the
//! OpenAPI document derive from it.

use crate::answer::{Answer, JSON, Result};
use crate::api::{calibration, config, decisions, endpoints, explain, health, pools, routes, status};
use crate::{Served, openapi};
use http::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// One call.
pub(crate) struct Route {
    pub(crate) verb: Verb,
    /// As OpenAPI writes it. What follows the first `{` may hold slashes and reaches the handler as [`Call::rest`].
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    /// One line.
    pub(crate) summary: &'static str,
    /// Names that the query may hold, each with what it means; others are refused.
    pub(crate) query: &'static [Parameter],
    pub(crate) body: Option<Media>,
    pub(crate) answer: Media,
    /// Statuses besides 200, each with its meaning; what every call may answer is added to them.
    pub(crate) others: &'static [(u16, &'static str)],
    pub(crate) handle: fn(&Call<'_>) -> Result<Answer>,
}

/// The methods in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Post,
    Patch,
}

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Whoever has the admin token.
    Token,
    /// Everybody.
    Public,
    /// Everybody where the listener is on loopback, else whoever has the admin token.
    PublicOnLoopback,
}

/// A parameter of a query.
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    /// The word of JSON schema.
    pub(crate) kind: &'static str,
    pub(crate) about: &'static str,
}

/// A body: its content type and its schema.
#[derive(Clone, Copy)]
pub(crate) struct Media {
    pub(crate) media: &'static str,
    pub(crate) schema: fn(&mut SchemaGenerator) -> Schema,
}

/// What a handler sees of a request.
pub(crate) struct Call<'a> {
    pub(crate) served: &'a Served,
    /// The raw path from the first parameter on.
    pub(crate) rest: &'a str,
    /// Decoded.
    pub(crate) query: Vec<(String, String)>,
    pub(crate) body: &'a [u8],
}

impl Call<'_> {
    /// The value of `name` in the query.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl Verb {
    pub(crate) fn method(self) -> Method {
        match self {
            Self::Get => Method::GET,
            Self::Post => Method::POST,
            Self::Patch => Method::PATCH,
        }
    }

    /// Whether a request with `method` is one: HEAD counts as GET.
    pub(crate) fn takes(self, method: &Method) -> bool {
        *method == self.method() || (self == Self::Get && *method == Method::HEAD)
    }
}

impl Media {
    /// JSON of this type.
    const fn json<T: JsonSchema>() -> Self {
        Self {
            media: JSON,
            schema: |generator| generator.subschema_for::<T>(),
        }
    }

    const fn text(media: &'static str) -> Self {
        Self {
            media,
            schema: |generator| generator.subschema_for::<String>(),
        }
    }
}

/// A GET with the token.
const fn get(path: &'static str, answer: Media, handle: fn(&Call<'_>) -> Result<Answer>) -> Route {
    Route {
        verb: Verb::Get,
        path,
        access: Access::Token,
        summary: "",
        query: &[],
        body: None,
        answer,
        others: &[],
        handle,
    }
}

/// A POST or PATCH with the token; `bodies`: the request's, if it has one, and the answer's.
const fn send(
    verb: Verb,
    path: &'static str,
    bodies: (Option<Media>, Media),
    handle: fn(&Call<'_>) -> Result<Answer>,
) -> Route {
    Route {
        verb,
        body: bodies.0,
        ..get(path, bodies.1, handle)
    }
}

/// Content type of OpenMetrics, as the metrics are encoded.
pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const NO_ROUTE: &[(u16, &str)] = &[(404, "no such route; the message names the nearest")];
const NO_POOL: &[(u16, &str)] = &[(404, "no such pool; the message names the nearest")];
const NO_ENDPOINT: &[(u16, &str)] = &[
    (404, "no such endpoint; the message names the nearest"),
    (
        409,
        "several endpoints fit the path: percent-encode slashes that belong to a name",
    ),
];

/// The table.
pub(crate) static ROUTES: &[Route] = &[
    Route {
        access: Access::PublicOnLoopback,
        summary: "Metrics in the OpenMetrics text format.",
        ..get("/metrics", Media::text(OPEN_METRICS), health::metrics)
    },
    Route {
        access: Access::Public,
        summary: "The process lives.",
        ..get("/health", Media::json::<health::Health>(), health::health)
    },
    Route {
        access: Access::Public,
        summary: "The config is loaded and the gateway does not drain.",
        others: &[(503, "the gateway drains")],
        ..get("/ready", Media::json::<health::Health>(), health::ready)
    },
    Route {
        summary: "The gateway as a whole.",
        ..get("/api/status", Media::json::<status::Status>(), status::status)
    },
    Route {
        summary: "All routes, in the order of the config.",
        ..get("/api/routes", Media::json::<routes::Routes>(), routes::all)
    },
    Route {
        summary: "One route. Its name may hold slashes.",
        others: NO_ROUTE,
        ..get(
            "/api/routes/{name}",
            Media::json::<routes::RouteShown>(),
            routes::one,
        )
    },
    Route {
        summary: "All pools with their endpoints, in the order of the config.",
        ..get("/api/pools", Media::json::<pools::Pools>(), pools::all)
    },
    Route {
        summary: "All endpoints, in the order of the config; removed ones that still answer come last.",
        ..get(
            "/api/endpoints",
            Media::json::<endpoints::Endpoints>(),
            endpoints::all,
        )
    },
    Route {
        summary: "Drains an endpoint, takes it back, or overrides its weight. Percent-encode slashes of the pool's name.",
        others: NO_ENDPOINT,
        ..send(
            Verb::Patch,
            "/api/endpoints/{pool}/{name}",
            (
                Some(Media::json::<endpoints::Change>()),
                Media::json::<endpoints::Shown>(),
            ),
            endpoints::patch,
        )
    },
    Route {
        summary: "The newest calibration of a pool: how fast its endpoints write. The pool's name may hold slashes.",
        others: NO_POOL,
        ..get(
            "/api/calibration/{pool}",
            Media::json::<calibration::Shown>(),
            calibration::newest,
        )
    },
    Route {
        summary: "Measures how fast each endpoint of a pool writes, and sets the weights that follow if asked to. Answers at \
                  once; GET tells how it goes.",
        others: &[
            (404, "no such pool; the message names the nearest"),
            (409, "the pool is being calibrated"),
            (422, "no route sends requests to the pool"),
            (503, "the gateway is ending"),
        ],
        ..send(
            Verb::Post,
            "/api/calibration/{pool}",
            (
                Some(Media::json::<calibration::Ask>()),
                Media::json::<calibration::Shown>(),
            ),
            calibration::begin,
        )
    },
    Route {
        summary: "The latest decisions, newest first.",
        query: &[
            Parameter {
                name: "route",
                kind: "string",
                about: "only those of this route; absent: of all",
            },
            Parameter {
                name: "limit",
                kind: "integer",
                about: "how many at most, 1 to 1000; absent: 50. The latest 256 of each route are kept",
            },
        ],
        others: NO_ROUTE,
        ..get(
            "/api/decisions",
            Media::json::<decisions::Latest>(),
            decisions::latest,
        )
    },
    Route {
        summary: "What would be decided for a request now, candidate by candidate. Nothing is sent, nothing changes.",
        others: &[(404, "no route has the model's name")],
        ..send(
            Verb::Post,
            "/api/explain",
            (
                Some(Media {
                    media: JSON,
                    schema: explain::schema,
                }),
                Media::json::<weighbridge_gateway::admin_view::ExplanationShown>(),
            ),
            explain::explain,
        )
    },
    Route {
        summary: "The config in force, with all defaults; secrets are masked.",
        ..get("/api/config", Media::json::<config::InForce>(), config::in_force)
    },
    Route {
        summary: "Reads the config file again and takes it, if it is good.",
        others: &[
            (409, "the gateway was started without a file"),
            (
                422,
                "the config is refused, the running one stays in force; `error.problems` lists what is wrong",
            ),
        ],
        ..send(
            Verb::Post,
            "/api/config/reload",
            (None, Media::json::<config::Reloaded>()),
            config::reload,
        )
    },
    Route {
        summary: "Says what is wrong with a config, and what would change. Takes YAML; nothing changes.",
        ..send(
            Verb::Post,
            "/api/config/check",
            (
                Some(Media::text("application/yaml")),
                Media::json::<config::Checked>(),
            ),
            config::check,
        )
    },
    Route {
        summary: "This document.",
        ..get(
            "/api/openapi.json",
            Media::json::<openapi::Document>(),
            openapi::serve,
        )
    },
];

/// What later versions serve; refused by name until then. Methods: none means all.
pub(crate) static NOT_YET: &[(&str, Option<Method>)] = &[
    ("/api/requests", None),
    ("/api/keys", None),
    ("/api/keys/{*rest}", None),
    ("/api/usage", None),
    ("/api/simulate", None),
    ("/api/live", None),
    ("/api/config", Some(Method::PUT)),
];
