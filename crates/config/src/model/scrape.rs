//! `pools[].scrape`.

use crate::leaf::{Span, Text, Whole, schema};
use crate::read::{At, FromNode, Reader, section};
use crate::scrape::Selector;
use crate::yaml::NodeId;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

section! {
    /// Where and how often the load of the engines is read from their metrics.
    Scrape {
        /// Path of the metrics below the endpoint's URL. Default: by kind, mostly `/metrics`.
        path: Text,
        /// Port of the metrics where it is not the endpoint's own, as Triton's 8002.
        port: Whole<1, 65_535>,
        /// Time between two readings. What is older than three of them is stale.
        interval: Span = "1s",
        /// Metrics of an engine that Weighbridge does not know, or that say better what the load is.
        names: Names,
    }
}

/// A metric: its name, and perhaps a label and a divisor.
pub(crate) struct Metric(pub(crate) Selector);
schema!(Metric, "Metric", {"title": "metric", "type": "string", "examples": ["my_engine:queue_size", "requests{state=\"waiting\"}", "kv_percent / 100"]});

impl FromNode for Metric {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        let text = reader.text(node, "text such as `my_engine:queue_size`")?;
        let selector = Selector::parse(&text);
        if selector.is_none() {
            reader.problem(
                node,
                format!("`{text}` is no metric"),
                "write a metric's name, perhaps one label and a divisor: `requests{state=\"waiting\"}`, `kv_percent / 100`",
            );
        }
        selector.map(Self)
    }
}

section! {
    /// Metrics by what they say. Each takes the place of those that Weighbridge knows for it.
    Names {
        /// Requests that wait in the engine.
        waiting: Metric,
        /// Requests that the engine works on.
        running: Metric,
        /// Share of the KV cache in use, 0 to 1.
        kv_usage: Metric,
        /// Prompt tokens looked up in the prefix cache, a counter.
        prefix_queries: Metric,
        /// Prompt tokens found in the prefix cache, a counter.
        prefix_hits: Metric,
        /// Share of the GPU's memory in use, 0 to 1.
        gpu_memory: Metric,
        /// Share of time in which the GPU works, 0 to 1.
        gpu_utilisation: Metric,
        /// Tokens per block of the KV cache.
        block_size: Metric,
        /// Blocks that the KV cache holds.
        cache_blocks: Metric,
        /// Tokens that the KV cache holds.
        cache_tokens: Metric,
        /// Sequences that can run at once.
        max_sequences: Metric,
        /// Sequences that lost their cache and started over, a counter.
        preemptions: Metric,
        /// Prompt tokens processed, a counter.
        prompt_tokens: Metric,
        /// Tokens generated, a counter.
        generation_tokens: Metric,
    }
}

impl Names {
    /// Those that are given, by signal.
    pub(crate) fn given(self) -> Vec<(&'static str, Selector)> {
        let all = [
            ("waiting", self.waiting),
            ("running", self.running),
            ("kv_usage", self.kv_usage),
            ("prefix_queries", self.prefix_queries),
            ("prefix_hits", self.prefix_hits),
            ("gpu_memory", self.gpu_memory),
            ("gpu_utilisation", self.gpu_utilisation),
            ("block_size", self.block_size),
            ("cache_blocks", self.cache_blocks),
            ("cache_tokens", self.cache_tokens),
            ("max_sequences", self.max_sequences),
            ("preemptions", self.preemptions),
            ("prompt_tokens", self.prompt_tokens),
            ("generation_tokens", self.generation_tokens),
        ];
        let given = |(signal, metric): (_, Option<At<Metric>>)| Some((signal, metric?.value.0));
        all.into_iter().filter_map(given).collect()
    }
}
