//! `routes[].filters`.

use crate::forms::OneOrMany;
use crate::leaf::{Flag, Name, Text};
use crate::model::routes::Tokens;
use crate::read::{At, FromNode, Reader, section, words};
use crate::yaml::{NodeId, Shape, Value};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

section! {
    /// What keeps endpoints from serving a request, whatever their scores.
    Filters {
        /// Whether models are left out that cannot take images, audio, files, tools or a JSON schema that the request
        /// holds. Default: where a pool of the route has `abilities`.
        modality: Flag,
        /// Labels that every endpoint must carry: each with a value or several of which one must be there.
        labels: LabelValues,
        /// Labels that no endpoint may carry.
        not_labels: LabelValues,
        /// Further labels, for some requests; all rules that apply must be content.
        rules: Vec<At<Rule>>,
        /// Names of labels that clients may ask for in the header `x-weighbridge-labels: gpu=H100, tier=gold`.
        by_header: Vec<At<Name>>,
        /// Whether models are left out whose context is too small for the prompt and `max_tokens`; the largest always stay.
        /// Default: where a pool of the route has a `context_length`.
        context_length: Flag,
        /// Whether engines without room for the request in their KV cache are left out while another has it.
        kv_fits: Flag = false,
    }
}

section! {
    /// Labels that endpoints must or must not carry, for some requests.
    Rule {
        /// Only for requests that meet all of this. Default: for all.
        when: Condition,
        /// Not for requests that meet all of this.
        unless: Condition,
        /// Labels that endpoints must carry.
        labels: LabelValues,
        /// Labels that they must not carry.
        not_labels: LabelValues,
    }
}

section! {
    /// What a request is like.
    Condition {
        /// Tokens of its prompt, counted or estimated.
        prompt_tokens: Tokens,
        /// Its class.
        priority: OneOrMany<Priority>,
    }
}

words! {
    /// A class of requests.
    Priority {
        /// Most urgent.
        P0 = "P0",
        /// Urgent.
        P1 = "P1",
        /// Usual.
        P2 = "P2",
        /// Work that can wait.
        P3 = "P3",
    }
}

/// Labels, each with the values of which one counts.
pub(crate) struct LabelValues(pub(crate) Vec<(String, Vec<String>)>);

impl FromNode for LabelValues {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        let Value::Map(entries) = reader.tree.value(node) else {
            reader.unexpected(node, "a map of labels");
            return None;
        };
        let entries = entries.clone();
        if entries.is_empty() {
            reader.problem(
                node,
                "no label is named",
                "write `{gpu: A100}`, or remove the key",
            );
        }
        let labels = entries.into_iter().filter_map(|entry| {
            let values = values(reader, entry.value)?;
            Some((entry.key, values))
        });
        Some(Self(labels.collect()))
    }
}

/// One value, or a list of some.
fn values(reader: &mut Reader<'_>, node: NodeId) -> Option<Vec<String>> {
    if reader.tree.shape(node) != Shape::List {
        return reader.text(node, "text, or a list of text,").map(|one| vec![one]);
    }
    let OneOrMany(texts) = OneOrMany::<Text>::from_node(reader, node)?;
    Some(texts.into_iter().map(|text| text.value.0).collect())
}

impl JsonSchema for LabelValues {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "LabelValues".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let values = serde_json::json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]});
        json_schema!({"title": "map of labels", "type": "object", "additionalProperties": values, "examples": [{"gpu": ["A100", "H100"], "zone": "az1"}]})
    }
}
