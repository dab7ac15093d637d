//! From the located tree to typed sections, collecting every problem on the way.
//!
//! A section is a struct declared with [`section!`]: the same declaration gives the reader, the list of known keys, the
//! names that later versions build, and the JSON schema.

use crate::hints;
use crate::problems::Problem;
use crate::resolved::BaseUrl;
use crate::stand_ins::StandIns;
use crate::vars::{self, Expanded};
use crate::yaml::{Entry, Mark, NodeId, Shape, Tree, Value, shorten};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A value and where it stands in the file.
#[derive(Clone, Debug)]
pub(crate) struct At<T> {
    pub(crate) node: NodeId,
    pub(crate) value: T,
}

/// Something that can be read from a node of the file.
pub(crate) trait FromNode: Sized {
    /// Reads it; `None` if that is impossible, after the reason has been reported.
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self>;
}

/// Keys of a section.
pub(crate) struct Keys<'k> {
    /// All that are known.
    pub(crate) known: &'k [&'k str],
    /// Those that must be given.
    pub(crate) required: &'k [&'k str],
    /// Those of which one must be given and only one can be; empty: none.
    pub(crate) either: &'k [&'k str],
    /// Those that later versions build.
    pub(crate) later: &'k [&'k str],
}

const LATER_HINT: &str = "remove it; a later version takes it";

/// The tree being read, and what was found wrong so far.
pub(crate) struct Reader<'a> {
    pub(crate) tree: Tree,
    file: &'a str,
    pub(crate) env: &'a dyn Fn(&str) -> Option<String>,
    /// What relative paths in the file are relative to.
    pub(crate) directory: Option<&'a Path>,
    /// What stands for the values of variables; none: they themselves do.
    pub(crate) stand_ins: Option<&'a StandIns<'a>>,
    /// The variables that stood in places which are shown, and their values.
    pub(crate) shown: BTreeMap<String, String>,
    /// URLs with variables, as they are written.
    pub(crate) urls: BTreeSet<String>,
    /// Where engines' events are listened for, by how many ranks, and where that is written.
    pub(crate) kv_listeners: Vec<(NodeId, crate::kv_events::Place, u32)>,
    /// Where the gateway itself listens, by the key that says so.
    pub(crate) own_listeners: Vec<(&'static str, std::net::SocketAddr)>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(tree: Tree, file: &'a str, env: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            tree,
            file,
            env,
            directory: None,
            stand_ins: None,
            shown: BTreeMap::new(),
            urls: BTreeSet::new(),
            kv_listeners: Vec::new(),
            own_listeners: Vec::new(),
            problems: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn place(&self, (node, mark): (NodeId, Mark), message: String, hint: String) -> Problem {
        Problem {
            file: self.file.to_owned(),
            line: mark.line,
            column: mark.column,
            path: self.tree.path(node),
            message,
            hint: (!hint.is_empty()).then_some(hint),
        }
    }

    /// Reports that something is wrong at `node`; an empty hint is none.
    pub(crate) fn problem(&mut self, node: NodeId, message: impl Into<String>, hint: impl Into<String>) {
        let problem = self.found(node, message.into(), hint.into());
        self.problems.push(problem);
    }

    /// What was found at `node`, unless nothing of it can be known since a stand-in was looked at.
    fn found(&self, node: NodeId, message: String, hint: String) -> Problem {
        let unknown = match (self.stand_ins, self.tree.value(node)) {
            (Some(stand_ins), Value::Scalar { text, .. }) => match vars::expand(text, self.env) {
                Ok(done) => stand_ins.within(&done.text),
                Err(_) => Vec::new(),
            },
            _ => Vec::new(),
        };
        let (message, hint) = match unknown.is_empty() {
            true => (message, hint),
            false => (
                format!(
                    "{} cannot be judged here: this check does not look at the values of variables",
                    unknown.join(", ")
                ),
                "have `weighbridge check` look at the file where the gateway runs".to_owned(),
            ),
        };
        self.place((node, self.tree.mark(node)), message, hint)
    }

    /// Reports something that is allowed and will surprise.
    pub(crate) fn warn(&mut self, node: NodeId, message: impl Into<String>, hint: impl Into<String>) {
        let problem = self.found(node, message.into(), hint.into());
        self.warnings.push(problem);
    }

    /// Reports that a known name belongs to a part that is not built yet.
    pub(crate) fn not_yet(&mut self, node: NodeId, name: &str) {
        self.problem(node, format!("`{name}` is not supported yet"), LATER_HINT);
    }

    /// Reports that a node is not what is wanted there.
    pub(crate) fn unexpected(&mut self, node: NodeId, wanted: &str) {
        let hint = match self.tree.shape(node) {
            Shape::Nothing => "give a value, or remove the key".to_owned(),
            Shape::Number | Shape::Flag if wanted.starts_with("text") => "put it in quotes".to_owned(),
            Shape::Text if wanted == "a list" => "put it in square brackets: `[…]`".to_owned(),
            _ => String::new(),
        };
        let found = match self.tree.shape(node) {
            Shape::Nothing => "nothing is given".to_owned(),
            shape => format!("this is {}", shape.named()),
        };
        self.problem(node, format!("{wanted} is expected here, but {found}"), hint);
    }

    /// Gives the problem that was reported last another hint, unless what was found there is not to be judged.
    pub(crate) fn hint_last(&mut self, hint: String) {
        let judged = self.stand_ins.is_none();
        if let Some(problem) = self.problems.last_mut().filter(|_| judged) {
            problem.hint = Some(hint);
        }
    }

    /// Reads a value of any kind.
    pub(crate) fn read<T: FromNode>(&mut self, node: NodeId) -> Option<At<T>> {
        Some(At {
            node,
            value: T::from_node(self, node)?,
        })
    }

    /// The text of a scalar as written, for messages.
    pub(crate) fn written(&self, node: NodeId) -> String {
        match self.tree.value(node) {
            Value::Scalar { text, .. } => shorten(text),
            _ => String::new(),
        }
    }

    /// The text of a scalar with its variables replaced, whatever YAML takes it for; `None` and no report if it is none.
    /// It is for a place that is shown.
    pub(crate) fn scalar(&mut self, node: NodeId) -> Option<Option<Expanded>> {
        let read = self.hidden(node);
        if let (Some(Some(Expanded { any: true, .. })), Value::Scalar { text, .. }) =
            (&read, self.tree.value(node))
        {
            let text = text.clone();
            self.note_shown(&text);
        }
        read
    }

    /// As [`Self::scalar`], for a place that is not shown, or only in part.
    pub(crate) fn hidden(&mut self, node: NodeId) -> Option<Option<Expanded>> {
        let Value::Scalar { text, .. } = self.tree.value(node) else {
            return Some(None);
        };
        match vars::expand(text, self.env) {
            Ok(done) => Some(Some(done)),
            Err((message, hint)) => {
                self.problem(node, message, hint);
                None
            }
        }
    }

    fn note_shown(&mut self, raw: &str) {
        let used = RefCell::new(Vec::new());
        let noted = |name: &str| {
            let value = (self.env)(name)?;
            used.borrow_mut().push((name.to_owned(), value.clone()));
            Some(value)
        };
        if vars::expand(raw, &noted).is_ok() {
            self.shown.extend(used.into_inner());
        }
    }

    /// The text of a URL with its variables replaced. Its query is not shown.
    pub(crate) fn url(&mut self, node: NodeId, wanted: &str) -> Option<String> {
        if self.tree.shape(node) != Shape::Text {
            self.unexpected(node, wanted);
            return None;
        }
        let done = self.hidden(node)??;
        let raw = match self.tree.value(node) {
            Value::Scalar { text, .. } if done.any => text.clone(),
            _ => return Some(done.text),
        };
        let head = raw.split('?').next().unwrap_or_default();
        if vars::expand(head, self.env).is_ok_and(|head| !head.text.contains('?')) {
            self.note_shown(head);
        }
        let stood_in = self
            .stand_ins
            .filter(|_| BaseUrl::parse(&done.text).is_err())
            .and_then(|stand_ins| stand_ins.url(&raw, &done.text));
        self.urls.insert(raw);
        Some(stood_in.unwrap_or(done.text))
    }

    /// The text of a node with its variables replaced. `wanted` names in messages what is wanted, beginning with "text".
    pub(crate) fn text(&mut self, node: NodeId, wanted: &str) -> Option<String> {
        if self.tree.shape(node) != Shape::Text {
            self.unexpected(node, wanted);
            return None;
        }
        self.scalar(node)?.map(|done| done.text)
    }

    /// The entries of a map that belong to known keys. Unknown keys, those of later versions and missing ones are
    /// reported.
    pub(crate) fn entries(&mut self, node: NodeId, keys: &Keys<'_>) -> Option<Vec<(String, NodeId)>> {
        let Value::Map(entries) = self.tree.value(node) else {
            self.unexpected(node, "a map");
            let path = self.tree.path(node);
            if let Some(problem) = self.problems.last_mut() {
                let known = keys.known.iter().map(|key| plain(key)).collect::<Vec<_>>();
                let usual = || format!("write a map of settings; known: {}", known.join(", "));
                problem.hint = Some(hints::example(&path).map_or_else(usual, str::to_owned));
            }
            return None;
        };
        let entries = entries.clone();
        // A key of a later version may stand in the place of the missing one, as `discovery.kubernetes` does for `dns`.
        let later = entries
            .iter()
            .any(|entry| keys.later.contains(&entry.key.as_str()));
        for required in keys.required.iter().filter(|_| !later) {
            if !entries.iter().any(|entry| entry.key == *required) {
                self.problem(
                    node,
                    format!("the key `{required}` is missing"),
                    format!("add `{required}: …`"),
                );
            }
        }
        if !keys.either.is_empty() && !later {
            self.one_of(node, &entries, keys.either);
        }
        let mut known = Vec::with_capacity(entries.len());
        for entry in entries {
            if keys.known.iter().any(|key| plain(key) == entry.key) {
                known.push((entry.key, entry.value));
                continue;
            }
            self.unknown_key(&entry, "key", keys);
        }
        Some(known)
    }

    /// Reports unless exactly one of these keys is given.
    fn one_of(&mut self, node: NodeId, entries: &[Entry], either: &[&str]) {
        let mut given = entries
            .iter()
            .filter(|entry| either.contains(&entry.key.as_str()));
        match (given.next(), given.next()) {
            (None, _) => {
                let [first, others @ ..] = either else { return };
                let others: String = others.iter().map(|key| format!(" or `{key}: …`")).collect();
                self.problem(
                    node,
                    format!("the key `{first}` is missing"),
                    format!("add `{first}: …`{others}"),
                );
            }
            (Some(one), Some(two)) => {
                let problem = self.place(
                    (two.value, two.mark),
                    format!("`{}` and `{}` are both given", one.key, two.key),
                    "keep one of them".to_owned(),
                );
                self.problems.push(problem);
            }
            (Some(_), None) => {}
        }
    }

    /// Reports a key that a map cannot have, at the key itself.
    pub(crate) fn unknown_key(&mut self, entry: &Entry, what: &str, keys: &Keys<'_>) {
        let (message, hint) = if keys.later.contains(&entry.key.as_str()) {
            (
                format!("`{}` is not supported yet", entry.key),
                LATER_HINT.to_owned(),
            )
        } else {
            let (message, hint) = unknown(&entry.key, what, keys.known);
            // Other gateways have pages' headers and methods listed, which are no keys of another section.
            let here = match self.tree.path(entry.value).starts_with("cors.") {
                true => Some(format!(
                    "remove it: the gateway knows which headers and methods pages need; {hint}"
                )),
                // Who wrote a key of another section wants none of this one.
                false => hints::belongs(&entry.key),
            };
            (message, here.unwrap_or(hint))
        };
        let problem = self.place((entry.value, entry.mark), message, hint);
        self.problems.push(problem);
    }

    /// The value of a key of a map.
    pub(crate) fn child(&self, node: NodeId, key: &str) -> Option<NodeId> {
        match self.tree.value(node) {
            Value::Map(entries) => entries
                .iter()
                .find(|entry| entry.key == key)
                .map(|entry| entry.value),
            _ => None,
        }
    }

    /// Whether it is a list with nothing in it.
    pub(crate) fn is_empty_list(&self, node: NodeId) -> bool {
        matches!(self.tree.value(node), Value::List(items) if items.is_empty())
    }

    /// Whether it is a map with nothing in it.
    pub(crate) fn is_empty_map(&self, node: NodeId) -> bool {
        matches!(self.tree.value(node), Value::Map(entries) if entries.is_empty())
    }

    /// The nodes of a list, without a report if it is none.
    pub(crate) fn children(&self, node: NodeId) -> Vec<NodeId> {
        match self.tree.value(node) {
            Value::List(items) => items.clone(),
            _ => Vec::new(),
        }
    }

    /// The keys of a map with their nodes, without a report if it is none.
    pub(crate) fn keyed(&self, node: NodeId) -> Vec<(String, NodeId)> {
        match self.tree.value(node) {
            Value::Map(entries) => (entries.iter())
                .map(|entry| (entry.key.clone(), entry.value))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// The nodes of a list.
    pub(crate) fn items(&mut self, node: NodeId) -> Option<Vec<NodeId>> {
        if let Value::List(items) = self.tree.value(node) {
            return Some(items.clone());
        }
        self.unexpected(node, "a list");
        None
    }
}

/// A key without the `r#` that Rust's keywords need.
pub(crate) fn plain(key: &str) -> &str {
    key.strip_prefix("r#").unwrap_or(key)
}

/// Message and hint for a name that is not among the known ones.
pub(crate) fn unknown(name: &str, what: &str, known: &[&str]) -> (String, String) {
    let near = nearest(name, known.iter().map(|key| plain(key)));
    let near = near
        .map(|near| format!("did you mean `{near}`? "))
        .unwrap_or_default();
    let list = known.iter().map(|key| plain(key)).collect::<Vec<_>>().join(", ");
    let shown = shorten(name);
    let message = match shown.trim() {
        "" => format!("no {what} is given, only quotes"),
        // Backticks would not show where it begins and ends.
        _ if shown.contains('`') => format!("unknown {what} {shown:?}"),
        _ => format!("unknown {what} `{shown}`"),
    };
    (message, format!("{near}known: {list}"))
}

/// The candidate that `name` was probably meant to be.
pub(crate) fn nearest<'n>(name: &str, candidates: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    const SIMILAR: f64 = 0.75;
    let name = name.to_lowercase().replace(['-', ' '], "_");
    candidates
        .map(|candidate| {
            (
                strsim::jaro_winkler(&name, &candidate.to_lowercase().replace('-', "_")),
                candidate,
            )
        })
        .filter(|(similarity, _)| *similarity >= SIMILAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

impl<T: FromNode> FromNode for Vec<At<T>> {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        let items = reader.items(node)?;
        Some(items.into_iter().filter_map(|item| reader.read(item)).collect())
    }
}

impl<T: JsonSchema> JsonSchema for At<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// What the schema and the reference say of a key.
pub(crate) struct KeyDoc {
    pub(crate) key: &'static str,
    pub(crate) lines: &'static [&'static str],
    pub(crate) default: Option<serde_json::Value>,
    pub(crate) schema: Schema,
}

/// The schema of a section.
pub(crate) fn object(about: &[&str], keys: &Keys<'_>, docs: Vec<KeyDoc>) -> Schema {
    let mut properties = serde_json::Map::new();
    for doc in docs {
        let mut schema = doc.schema;
        schema.insert("description".to_owned(), prose(doc.lines).into());
        if let Some(default) = doc.default {
            schema.insert("default".to_owned(), default);
        }
        properties.insert(plain(doc.key).to_owned(), schema.to_value());
    }
    let mut schema = schemars::json_schema!({
        "type": "object",
        "description": prose(about),
        "properties": properties,
        "additionalProperties": false,
    });
    if !keys.required.is_empty() {
        schema.insert("required".to_owned(), keys.required.into());
    }
    if !keys.either.is_empty() {
        let choices = keys
            .either
            .iter()
            .map(|key| serde_json::json!({"required": [key]}));
        schema.insert("oneOf".to_owned(), choices.collect());
    }
    schema
}

/// The lines of a doc comment as running text.
pub(crate) fn prose(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// Declares a section of the config: a struct of optional values, its reader and its schema.
///
/// `key: Type = default` puts a default into the schema; a test holds the schema's defaults against the resolved config.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $name:ident {
            $( $(#[doc = $doc:literal])+ $key:ident : $type:ty $(= $default:expr)? ),+ $(,)?
        }
        $(required [$($required:ident),+])?
        $(either [$($either:ident),+])?
        $(later [$($later:ident),+])?
    ) => {
        $(#[doc = $about])+
        #[derive(Default)]
        pub(crate) struct $name {
            $( $(#[doc = $doc])+ pub(crate) $key: Option<$crate::read::At<$type>>, )+
        }

        impl $name {
            const KEYS: $crate::read::Keys<'static> = $crate::read::Keys {
                known: &[$(stringify!($key)),+],
                required: &[$($(stringify!($required)),+)?],
                either: &[$($(stringify!($either)),+)?],
                later: &[$($(stringify!($later)),+)?],
            };
        }

        impl $crate::read::FromNode for $name {
            fn from_node(reader: &mut $crate::read::Reader<'_>, node: $crate::yaml::NodeId) -> Option<Self> {
                let mut section = Self::default();
                for (key, value) in reader.entries(node, &Self::KEYS)? {
                    $( if key == $crate::read::plain(stringify!($key)) { section.$key = reader.read(value); } )+
                }
                Some(section)
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let docs = vec![
                    $( $crate::read::KeyDoc {
                        key: stringify!($key),
                        lines: &[$($doc),+],
                        default: None $(.or(Some(serde_json::json!($default))))?,
                        schema: generator.subschema_for::<$type>(),
                    } ),+
                ];
                $crate::read::object(&[$($about),+], &Self::KEYS, docs)
            }
        }
    };
}

/// Declares a choice among words: an enum, its reader and its schema. Words of later versions are refused by name.
macro_rules! words {
    (
        $(#[doc = $about:literal])+
        $name:ident { $( $(#[doc = $doc:literal])+ $variant:ident = $word:literal ),+ $(,)? }
        $(later [$($later:literal),+])?
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name { $( $(#[doc = $doc])+ $variant ),+ }

        impl $crate::read::FromNode for $name {
            fn from_node(reader: &mut $crate::read::Reader<'_>, node: $crate::yaml::NodeId) -> Option<Self> {
                const LATER: &[&str] = &[$($($later),+)?];
                let word = reader.word(node, &[$($word),+], LATER)?;
                $( if word == $word { return Some(Self::$variant); } )+
                None
            }
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::leaf::words_schema(&[$(($word, &[$($doc),+])),+])
            }
        }
    };
}

pub(crate) use {section, words};
