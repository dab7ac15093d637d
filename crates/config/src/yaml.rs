//! A YAML file as a tree in which every node knows its line, its column and its path.
//!
//! One document, maps with text keys, anchors, aliases and merge keys (`<<`). Aliases are copied, and the copies count
//! towards the same bound as written nodes, so a small file cannot unfold into a large one.

mod build;

pub(crate) use build::{BYTES_MAX, parse};

use granit_parser::Span;

/// Place of a node in its [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeId(usize);

/// A place in the file, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl From<&Span> for Mark {
    fn from(span: &Span) -> Self {
        Self {
            line: span.start.line().max(1),
            column: span.start.col() + 1,
        }
    }
}

/// What a node holds.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// Text, and whether it was written without quotes (then it may be a number, a boolean or nothing).
    Scalar { text: String, plain: bool },
    /// A list.
    List(Vec<NodeId>),
    /// A map, in the order of the file.
    Map(Vec<Entry>),
}

/// A key of a map and its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) mark: Mark,
    pub(crate) value: NodeId,
}

#[derive(Clone, Debug)]
enum Step {
    Key(String),
    Index(usize),
}

#[derive(Debug)]
struct Node {
    mark: Mark,
    parent: Option<(NodeId, Step)>,
    value: Value,
}

/// A parsed file.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
}

/// What a value is, in the words of error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Nothing,
    Flag,
    Number,
    Text,
    List,
    Map,
}

impl Shape {
    /// With its article.
    pub(crate) const fn named(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Flag => "true or false",
            Self::Number => "a number",
            Self::Text => "text",
            Self::List => "a list",
            Self::Map => "a map",
        }
    }
}

impl Tree {
    /// The outermost node.
    pub(crate) const ROOT: NodeId = NodeId(0);

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    /// All nodes, in the order in which they were read.
    pub(crate) fn all(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len()).map(NodeId)
    }

    /// What the node holds.
    pub(crate) fn value(&self, id: NodeId) -> &Value {
        &self.node(id).value
    }

    /// Where it stands.
    pub(crate) fn mark(&self, id: NodeId) -> Mark {
        self.node(id).mark
    }

    /// The way to it from the root: `pools[0].endpoints[1].url`.
    pub(crate) fn path(&self, id: NodeId) -> String {
        Self::path_of(&self.nodes, id)
    }

    fn path_of(nodes: &[Node], id: NodeId) -> String {
        let mut steps = Vec::new();
        let mut current = id;
        while let Some((parent, step)) = &nodes[current.0].parent {
            steps.push(step);
            current = *parent;
        }
        let mut path = String::new();
        for step in steps.into_iter().rev() {
            match step {
                Step::Key(key) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(key);
                }
                Step::Index(index) => path.push_str(&format!("[{index}]")),
            }
        }
        path
    }

    /// What it is, by the core schema of YAML 1.2.
    pub(crate) fn shape(&self, id: NodeId) -> Shape {
        match self.value(id) {
            Value::List(_) => Shape::List,
            Value::Map(_) => Shape::Map,
            Value::Scalar { plain: false, .. } => Shape::Text,
            Value::Scalar { text, plain: true } => match text.as_str() {
                "" | "~" | "null" | "Null" | "NULL" => Shape::Nothing,
                "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => Shape::Flag,
                text if is_number(text) => Shape::Number,
                _ => Shape::Text,
            },
        }
    }
}

fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    matches!(unsigned, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN")
        || (unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
            && unsigned.contains(|c: char| c.is_ascii_digit())
            && (unsigned.parse::<f64>().is_ok() || unsigned.starts_with("0x") || unsigned.starts_with("0o")))
}

pub(crate) use weighbridge_core::units::shorten;
