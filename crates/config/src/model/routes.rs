//! `routes`.

use crate::forms::{FromText, Short, Toggle};
use crate::leaf::{Beat, Flag, Millionths, Name, Number, Span, Whole};
use crate::model::policies::PolicySet;
use crate::read::{At, FromNode, Reader, section, unknown, words};
use crate::yaml::{Entry, NodeId, Shape, Value};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

section! {
    /// A model name that clients put into `model`, and how it is served.
    Route {
        /// What clients put into `model`.
        name: Name,
        /// The pools that serve it: names, or maps with a pool and more.
        targets: Vec<At<Short<Target>>>,
        /// How it chooses, where that is to be said by name. Default: as follows from the rest, see above; where nothing
        /// follows and there is more than one endpoint, by the preset `auto`.
        route_by: RouteByWord,
        /// Scores whose weighted sum chooses; not together with weights of targets.
        policies: PolicySet,
        /// Policies by the kind of traffic, instead of `policies`; `check` prints what it stands for.
        preset: PresetWord,
        /// How the winner is drawn from the scores.
        picker: Picker = "max",
        /// What keeps endpoints from serving a request, whatever their scores.
        filters: super::filters::Filters,
        /// Where weights choose: whether the share of a full target goes to the others; else the client gets 429.
        spill: Flag = true,
        /// What is tried again on another endpoint; `false`: nothing.
        retry: Toggle<Retry>,
        /// Other routes to try when this one cannot serve a request, in order.
        fallback: Vec<At<Short<Fallback>>>,
        /// Streams: how long the client hears nothing before it is sent a sign of life, and again each time; `0` or
        /// `off`: never.
        heartbeat: Beat = "15s",
        /// How token counts are learned.
        usage: Usage = "inject",
        /// What becomes of an answer whose client has left.
        on_disconnect: OnDisconnect = "cancel",
    }
    required [name, targets]
    later [choose, hedge, queue, cache, passthrough]
}

section! {
    /// A pool as one choice of a route.
    Target {
        /// The pool.
        pool: Name,
        /// Its name in the route. Default: the pool's.
        name: Name,
        /// Share of the route's traffic; on all targets of a route or on none. 0 takes nothing, failover included.
        weight: Millionths,
        /// 1 first. A later order serves only when no earlier one can.
        order: Whole<1, 1000> = 1,
        /// Lengths of prompts that it is meant for, for the policy `prompt_length`. Default: any.
        serves_tokens: Tokens,
    }
    required [pool]
}

section! {
    /// A range of prompt tokens.
    Tokens {
        /// More than this many.
        over: Whole<0, 1_000_000_000> = 0,
        /// At most this many. Default: any number.
        up_to: Whole<1, 1_000_000_000>,
    }
}

impl FromText for Target {
    const WANTED: &'static str = "text (the name of a pool), or a map with `pool`,";
    type Text = Name;

    fn from_text(pool: At<Name>) -> Self {
        Self {
            pool: Some(pool),
            ..Self::default()
        }
    }
}

words! {
    /// How a route chooses.
    RouteByWord {
        /// Its targets in turn; without weights, policies and a preset.
        RoundRobin = "round_robin",
        /// By the weights of its targets, of which each needs one.
        Weight = "weight",
        /// By `policies` or a `preset`; without either by the preset `auto`.
        Policy = "policy",
    }
}

words! {
    /// Policies by the kind of traffic.
    PresetWord {
        /// Nothing is known of it.
        Auto = "auto",
        /// Conversations that people wait for.
        Chat = "chat",
        /// Programs that call models and tools in many turns.
        Agents = "agents",
        /// Work that nobody waits for: full batches on few engines.
        Batch = "batch",
        /// Answers in time above all.
        Latency = "latency",
    }
}

words! {
    /// How the winner is drawn from the scores.
    PickerWord {
        /// The highest total.
        Max = "max",
        /// The better of two that chance names.
        PowerOfTwo = "power_of_two",
        /// By chance, in proportion to the exponential of total / `temperature`.
        WeightedRandom = "weighted_random",
    }
}

section! {
    /// A picker with settings.
    PickerMap {
        /// By chance, in proportion to the exponential of total / `temperature`.
        weighted_random: WeightedRandom,
    }
    required [weighted_random]
}

section! {
    /// How far chance goes.
    WeightedRandom {
        /// Above 0: the higher, the more even. Default: a tenth of the sum of the policies' weights.
        temperature: Number<0, 1_000_000_000>,
    }
}

/// A word, or a map with its settings.
pub(crate) enum Picker {
    Word(PickerWord),
    Map(PickerMap),
}

impl FromNode for Picker {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        let Value::Map(entries) = reader.tree.value(node) else {
            return PickerWord::from_node(reader, node).map(Self::Word);
        };
        let settings = reader.child(node, "weighted_random");
        // Beside the picker that has settings, what is no picker is a key like any other that is not known.
        let wrong = |entry: &&Entry| settings.is_none() || matches!(&*entry.key, "max" | "power_of_two");
        if let Some(entry) = entries.iter().find(wrong).cloned() {
            no_settings_of(reader, &entry);
            return None;
        }
        let Some(settings) = settings else {
            reader.problem(
                node,
                "the map is empty, so it names no picker",
                format!("write `picker: max`, or `{WITH_SETTINGS}`"),
            );
            return None;
        };
        let read = PickerMap::from_node(reader, node).map(Self::Map);
        match reader.tree.shape(settings) {
            Shape::Nothing => {
                reader.hint_last(format!("write `picker: weighted_random`, or `{WITH_SETTINGS}`"))
            }
            Shape::Number => {
                let number = reader.written(settings);
                reader.hint_last(format!(
                    "write `picker: {{weighted_random: {{temperature: {number}}}}}`"
                ));
            }
            _ => {}
        }
        read
    }
}

/// The one picker with settings.
const WITH_SETTINGS: &str = "picker: {weighted_random: {temperature: 0.1}}";

/// Reports a key of a picker's map that is not the name of a picker with settings.
fn no_settings_of(reader: &mut Reader<'_>, entry: &Entry) {
    match entry.key.as_str() {
        word @ ("max" | "power_of_two") => reader.problem(
            entry.value,
            format!("`{word}` has no settings"),
            format!("write `picker: {word}`"),
        ),
        word => {
            let (message, hint) = unknown(word, "picker", &["max", "power_of_two", "weighted_random"]);
            let hint = match word {
                "temperature" => format!("write `{WITH_SETTINGS}`"),
                _ => crate::hints::elsewhere("picker", word).unwrap_or(hint),
            };
            reader.problem(entry.value, message, hint);
        }
    }
}

impl JsonSchema for Picker {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Picker".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = PickerWord::json_schema(generator);
        let map = generator.subschema_for::<PickerMap>();
        if let Some(choices) = schema.get_mut("oneOf").and_then(|choices| choices.as_array_mut()) {
            choices.push(map.to_value());
        }
        schema
    }
}

words! {
    /// How token counts are learned.
    Usage {
        /// OpenAI streams of chat and text completions are asked for them, and what a client did not ask for is taken out
        /// of its answer again.
        Inject = "inject",
        /// From answers that carry them, for engines that refuse `stream_options`. What no answer carries is estimated
        /// either way.
        Passive = "passive",
    }
}

words! {
    /// What becomes of an answer whose client has left.
    OnDisconnect {
        /// The engine is told at once, by closing its connection.
        Cancel = "cancel",
        /// It is read to its end and thrown away, so that its tokens are counted; its endpoint stays taken until then.
        Finish = "finish",
    }
}

section! {
    /// What is tried again on another endpoint.
    Retry {
        /// Most attempts in all.
        max_attempts: Whole<1, 100> = 3,
        /// What is tried again: `connect` (no connection), `reset` (closed without an answer), `timeout`, or a status.
        /// With `reset`, `timeout`, `"500"` and `"502"` a request may be done twice.
        on: Vec<At<RetryOn>> = ["connect", "429", "503", "529"],
        /// Cap on retries of the route.
        budget: Budget,
        /// Whether a request whose reused connection turned out dead is sent once more on a fresh one. Default:
        /// yes.
        resend: Flag,
        /// Streams: moves on to another endpoint after this time without a first byte, while there is one; needs
        /// `timeout` in `on`. Default: never.
        move_on_after: Span,
    }
}

/// One thing that is tried again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryOn {
    Connect,
    Reset,
    Timeout,
    Status(u16),
}

impl FromNode for RetryOn {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        const WORDS: &[&str] = &["connect", "reset", "timeout", "a status such as \"429\""];
        if !matches!(reader.tree.shape(node), Shape::Text | Shape::Number) {
            reader.unexpected(node, "text, one of connect, reset, timeout or a status,");
            return None;
        }
        let text = reader.scalar(node)??.text;
        match text.as_str() {
            "connect" => return Some(Self::Connect),
            "reset" => return Some(Self::Reset),
            "timeout" => return Some(Self::Timeout),
            _ => {}
        }
        let shown = reader.written(node);
        match text.parse::<u16>() {
            Ok(status @ 400..=599) if text.len() == 3 => return Some(Self::Status(status)),
            Ok(_) => reader.problem(
                node,
                format!("`{shown}` is not a status that an error has"),
                "statuses from 400 to 599 can be tried again",
            ),
            Err(_) if text.eq_ignore_ascii_case("5xx") => {
                reader.problem(
                    node,
                    "retries name single statuses, not classes",
                    "write \"500\", \"502\", \"503\"; a 503 is tried again by default",
                );
            }
            Err(_) => {
                let (message, hint) = unknown(&shown, "word", WORDS);
                reader.problem(node, message, hint);
            }
        }
        None
    }
}

impl JsonSchema for RetryOn {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "RetryOn".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            {"type": "string", "pattern": r"^(connect|reset|timeout|[45][0-9][0-9]|\$\{.*)$", "examples": ["connect", "timeout", "500"]},
            {"type": "integer", "minimum": 400, "maximum": 599},
        ]})
    }
}

section! {
    /// Cap on retries: in the window fewer than ratio · first attempts + floor_per_second · window.
    Budget {
        /// Retries per first attempt.
        ratio: Number<0, 100_000> = 0.2,
        /// Retries per second that are always allowed.
        floor_per_second: Number<0, 1_000_000_000> = 10.0,
        /// Span over which both are counted.
        window: Span = "10s",
    }
}

section! {
    /// A step to another route.
    Fallback {
        /// The route.
        route: Name,
        /// When to take it.
        on: Vec<At<FallbackOn>> = ["unavailable"],
    }
    required [route]
    later [cached]
}

impl FromText for Fallback {
    const WANTED: &'static str = "text (the name of a route), or a map with `route`,";
    type Text = Name;

    fn from_text(route: At<Name>) -> Self {
        Self {
            route: Some(route),
            ..Self::default()
        }
    }
}

words! {
    /// When a fallback is taken.
    FallbackOn {
        /// No engine answered: nothing live, or connections failed.
        Unavailable = "unavailable",
        /// The last engine asked failed: a 5xx, or no usable answer. It may have done the request.
        ServerError = "5xx",
        /// The last engine asked said 429 or 529, or every engine is full or has asked to wait.
        RateLimit = "429",
        /// A clock of `timeouts` ran out before an answer, or the engine said 504. It may have done the request.
        Timeout = "timeout",
        /// The engine refused the prompt as longer than its model takes.
        ContextLength = "context_length",
    }
}
