//! `pools`.

use crate::address::Url;
use crate::forms::{FromText, OneOrMany, Short, Status, Toggle};
use crate::leaf::{Daytime, Flag, Labels, Millionths, Name, Number, PoolWeight, Span, Text, Usd, Whole};
use crate::read::{At, section, words};
use crate::secret::{MaybeSecret, Secret};

section! {
    /// Endpoints that serve the same model with the same kind of engine.
    Pool {
        /// What routes and the admin API call it.
        name: Name,
        /// What runs there.
        kind: KindWord = "generic",
        /// Model name sent upstream. Default: the client's.
        model: Name,
        /// What it is good for, for people and for services that choose.
        description: Text,
        /// Where it runs: URLs, or maps with a URL and more.
        endpoints: Vec<At<Short<Endpoint>>>,
        /// Where it runs, as DNS or a file says, in place of `endpoints`; followed while serving.
        discovery: super::discovery::Discovery,
        /// Key sent upstream.
        api_key: MaybeSecret,
        /// Several keys, used in turn; each is rested on its own when its quota is used up.
        api_keys: Vec<At<Secret>>,
        /// Whether the client's own key is passed on.
        forward_client_key: Flag = false,
        /// HTTP version towards the endpoints.
        http: HttpWord = "auto",
        /// TLS towards `https` endpoints.
        tls: Tls,
        /// `auto`: the weights of its endpoints follow their load. `labels`: endpoints of weight 1 get one by their labels
        /// `gpu` (type) and `gpus` (number). Default: they are as written.
        weight: PoolWeight,
        /// How the route chooses that the pool is where no route names it. Default: by the weights of its endpoints where these
        /// differ, else, with more than one endpoint, by the preset `auto`.
        route_by: OwnRouteBy,
        /// Policies of that route by the kind of traffic; for others, write a route.
        preset: super::routes::PresetWord,
        /// How its endpoints are measured, and when that is done unasked.
        calibrate: Calibrate,
        /// Data-parallel ranks behind each URL, where an endpoint does not say itself; see `endpoints[].ranks`.
        ranks: Whole<1, 256> = 1,
        /// Most requests in flight per endpoint. Default: no limit.
        max_inflight: Whole<1, 1_000_000>,
        /// Most tokens of a prompt and its answer together. Default: not known.
        context_length: Whole<1, 1_000_000_000>,
        /// What tokens cost. Default: not known.
        price: Price,
        /// What its model is good at, in words of your own; requests say what they are about in `x-request-type`.
        strengths: Vec<At<Name>>,
        /// What its model can do beyond text. Default: everything.
        abilities: Vec<At<AbilityWord>>,
        /// Active probes; `false`: none. Default: by kind.
        health: Toggle<Health>,
        /// Takes an endpoint out that fails too often; `false`: never.
        breaker: Toggle<Breaker>,
        /// How long an endpoint that is busy is left alone.
        cooldown: Cooldown,
        /// Whether unhealthy endpoints are tried when nothing else is left.
        fail_open: Flag = true,
        /// How long an endpoint that comes back or joins is given less than its share.
        ramp: Span = "10s",
        /// Idle connections are dropped after this time; engines drop them after 5 s.
        keepalive: Span = "4s",
        /// Silence of all streams of an endpoint after which it counts as stalled. Default: never.
        stall_after: Span,
        /// Longest waits for the upstream.
        timeouts: Timeouts,
        /// Reads the load of engines from their metrics; `false`: never. Default: by kind.
        scrape: Toggle<super::scrape::Scrape>,
        /// How the engines make tokens of text, so that prompts are matched with their events (`kv_events`).
        tokenizer: super::kv_events::Tokenizer,
    }
    required [name]
    either [endpoints, discovery]
    later [quota_group, serves_tokens, passthrough, gpu_memory_max]
}

words! {
    /// How the route of a pool's own chooses.
    OwnRouteBy {
        /// Its endpoints in turn: those of different weights by these, others the one with the fewest requests in flight.
        RoundRobin = "round_robin",
        /// By its `preset`; without one by `auto`.
        Policy = "policy",
    }
}

words! {
    /// What runs at a pool's endpoints.
    KindWord {
        /// vLLM.
        Vllm = "vllm",
        /// SGLang.
        Sglang = "sglang",
        /// llama.cpp server.
        LlamaCpp = "llamacpp",
        /// Text Generation Inference.
        Tgi = "tgi",
        /// Ollama.
        Ollama = "ollama",
        /// TensorRT-LLM.
        TrtLlm = "trtllm",
        /// mistral.rs.
        MistralRs = "mistralrs",
        /// LMDeploy.
        LmDeploy = "lmdeploy",
        /// OpenAI, or a provider with its API.
        OpenAi = "openai",
        /// Anthropic.
        Anthropic = "anthropic",
        /// Google Gemini; no client path is served by it until requests are translated.
        Gemini = "gemini",
        /// Azure OpenAI.
        Azure = "azure",
        /// Anything; speaks what the client speaks.
        Generic = "generic",
    }
}

section! {
    /// What tokens cost, in USD per million.
    Price {
        /// Of prompts.
        input: Usd,
        /// Of answers.
        output: Usd,
    }
    required [input, output]
}

words! {
    /// What a model can do beyond text.
    AbilityWord {
        /// Images in the prompt.
        Image = "image",
        /// Audio in the prompt.
        Audio = "audio",
        /// Files (documents) in the prompt.
        File = "file",
        /// Calls of tools.
        Tools = "tools",
        /// Answers that follow a JSON schema.
        JsonSchema = "json_schema",
    }
}

section! {
    /// How `weighbridge calibrate` measures the endpoints of a pool, and when that is done unasked. The weights that follow
    /// are used until the next time, a weight that was set by hand before them.
    Calibrate {
        /// Time of day, UTC, at which it is done every day and the weights are set. Default: only when asked for.
        at: Daytime,
        /// Most tokens of each answer.
        tokens: Whole<16, 8192> = 128,
        /// Requests at once to each endpoint.
        requests: Whole<1, 64> = 4,
        /// An endpoint with more requests in flight is waited for, and left out if it stays busy.
        max_inflight: Whole<0, 100_000> = 2,
        /// Longest measurement of one endpoint, and longest wait for it.
        timeout: Span = "60s",
    }
}

section! {
    /// One running instance.
    Endpoint {
        /// Its name. Default: host:port and the path of its URL.
        name: Name,
        /// Base URL, `http` or `https`; a trailing `/v1` is ignored.
        url: Url,
        /// Share inside its pool; 0 takes nothing.
        weight: Millionths = 1,
        /// Free-form labels.
        labels: Labels,
        /// Page of the GPU exporter (DCGM, nvidia_gpu_exporter) of its machine, as a whole URL.
        gpu_metrics: Url,
        /// Numbers of its GPUs at that exporter. Default: all, unless `gpu_uuid` says which.
        gpu_index: OneOrMany<GpuIndex>,
        /// UUIDs of its GPUs at that exporter.
        gpu_uuid: OneOrMany<Name>,
        /// Where the engine tells what its prefix cache holds.
        kv_events: super::kv_events::KvEvents,
        /// Data-parallel ranks of its engine, each of which is an endpoint of its own, `NAME#0`, `NAME#1` and so on; requests say
        /// in `X-data-parallel-rank` which is meant. Default: as the pool says.
        ranks: Whole<1, 256>,
    }
    required [url]
    later [scrape, api_key]
}

/// A GPU's number on its machine.
pub(crate) type GpuIndex = Whole<0, 1023>;

impl FromText for Endpoint {
    const WANTED: &'static str = "text (a URL), or a map with `url`,";
    type Text = Url;

    fn from_text(url: At<Url>) -> Self {
        Self {
            url: Some(url),
            ..Self::default()
        }
    }
}

words! {
    /// HTTP version towards the endpoints.
    HttpWord {
        /// Over TLS the better of what the peer offers (ALPN), else HTTP/1.1.
        Auto = "auto",
        /// HTTP/1.1.
        One = "1",
        /// HTTP/2, without TLS by prior knowledge; a peer that does not speak it cannot be reached.
        Two = "2",
    }
}

section! {
    /// TLS towards `https` endpoints.
    Tls {
        /// PEM file of the authorities to trust instead of the system's.
        ca: Text,
        /// PEM file of the certificate to show.
        client_cert: Text,
        /// PEM file of that certificate's key.
        client_key: Text,
        /// Name to verify and to ask for instead of the URL's host.
        server_name: Name,
    }
}

section! {
    /// Active probes. They never run inference.
    Health {
        /// How to probe. Default: by the pool's kind; `http` where a path is given.
        r#type: ProbeWord,
        /// Path to ask for. Default: by the pool's kind.
        path: Text,
        /// Statuses that are healthy. Default: any 2xx.
        expect: OneOrMany<Status<200>>,
        /// Time between probes of one endpoint.
        interval: Span = "5s",
        /// Longest wait for the answer.
        timeout: Span = "2s",
        /// Failures in a row that make an endpoint unhealthy.
        unhealthy_after: Whole<1, 1000> = 3,
        /// Successes in a row that make it healthy again.
        healthy_after: Whole<1, 1000> = 2,
    }
}

words! {
    /// How to probe.
    ProbeWord {
        /// GET of a path.
        Http = "http",
        /// A connection can be made.
        Tcp = "tcp",
    }
}

section! {
    /// When an endpoint is taken out because it fails too often.
    Breaker {
        /// Span over which the error rate is taken.
        window: Span = "30s",
        /// Fewest requests in the window for the rate to count.
        min_requests: Whole<1, 1_000_000> = 10,
        /// Opens above this share of failures, from 0 to 1.
        error_rate: Number<0, 1000> = 0.10,
        /// Opens after this many failures in a row.
        consecutive: Whole<1, 1_000_000> = 5,
        /// Time until one request is let through to try.
        open_for: Span = "10s",
    }
}

section! {
    /// How long an endpoint that answered 429, 503 or 529 is left alone.
    Cooldown {
        /// After 429 or 529 that do not say how long.
        default: Span = "5s",
        /// Longest wait that is obeyed.
        max: Span = "60s",
    }
}

section! {
    /// Longest waits for the upstream.
    Timeouts {
        /// To make a connection.
        connect: Span = "2s",
        /// Streams: until the first byte of the body.
        first_byte: Span = "120s",
        /// Streams: between parts; comments and pings do not count.
        idle: Span = "60s",
        /// Answers in one piece: the whole attempt.
        total: Span = "600s",
        /// Streams: the whole attempt. Default: no limit.
        stream_total: Span,
        /// HTTP/2: silence of a connection after which the peer is asked for a sign of life, and the wait for it.
        ping: Span = "20s",
    }
}
