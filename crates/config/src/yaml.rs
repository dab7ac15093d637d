//! A YAML file as a tree in which every node knows its line, its column and its path.
//!
//! One document, maps with text keys, anchors, aliases and merge keys (`<<`). Aliases are copied, and the copies count
//! towards the same bound as written nodes, so a small file cannot unfold into a large one.

use crate::problems::Problem;
use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};
use std::collections::HashMap;

/// Largest file, bytes.
pub(crate) const BYTES_MAX: usize = 4 << 20;
/// Most nodes in a file, copies by aliases included.
const NODES_MAX: usize = 200_000;
/// Deepest nesting; the config itself needs 7.
const DEPTH_MAX: usize = 32;

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

/// Parses `text`; `file` is the name that problems carry.
///
/// Gives the tree together with problems that leave a tree to read on in (duplicate keys), or only problems.
pub(crate) fn parse(file: &str, text: &str) -> (Option<Tree>, Vec<Problem>) {
    let mut builder = Builder::new(file, text);
    let done = if text.len() > BYTES_MAX {
        let mark = Mark { line: 1, column: 1 };
        Err(builder.fault(
            mark,
            "the file is larger than 4 MiB",
            "split the fleet over several gateways",
        ))
    } else {
        builder.document()
    };
    match done {
        Ok(()) => (Some(Tree { nodes: builder.nodes }), builder.problems),
        Err(Stopped) => (None, builder.problems),
    }
}

/// The file cannot be read on; the reason is among the problems.
struct Stopped;

struct Builder<'a> {
    file: &'a str,
    parser: Parser<'a, StrInput<'a>>,
    nodes: Vec<Node>,
    /// Finished nodes by the parser's number of their anchor.
    anchors: HashMap<usize, NodeId>,
    problems: Vec<Problem>,
}

impl<'a> Builder<'a> {
    fn new(file: &'a str, text: &'a str) -> Self {
        let mut options = granit_parser::Options::default();
        options.emit_comments = false;
        options.flow_nesting_limit = DEPTH_MAX;
        options.block_nesting_limit = DEPTH_MAX;
        Self {
            file,
            parser: Parser::new_from_str_with_options(text, options),
            nodes: Vec::new(),
            anchors: HashMap::new(),
            problems: Vec::new(),
        }
    }

    fn fault(&mut self, mark: Mark, message: impl Into<String>, hint: &str) -> Stopped {
        self.report((mark, String::new()), message.into(), hint);
        Stopped
    }

    fn report(&mut self, (mark, path): (Mark, String), message: String, hint: &str) {
        self.problems.push(Problem {
            file: self.file.to_owned(),
            line: mark.line,
            column: mark.column,
            path,
            message,
            hint: (!hint.is_empty()).then(|| hint.to_owned()),
        });
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), Stopped> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(self.syntax(&error)),
            None => Err(self.fault(Mark { line: 1, column: 1 }, "the file ends early", "")),
        }
    }

    fn syntax(&mut self, error: &ScanError) -> Stopped {
        let marker = error.marker();
        let mark = Mark {
            line: marker.line().max(1),
            column: marker.col() + 1,
        };
        let hint = "indentation is by spaces; a value that holds `: `, ` #` or starts with one of `[]{}&*!|>%@` needs quotes";
        self.fault(mark, format!("not valid YAML: {}", error.info()), hint)
    }

    fn document(&mut self) -> Result<(), Stopped> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(..) => {}
                Event::StreamEnd => {
                    let hint =
                        "the smallest config is a list `pools` with one pool: a name and its endpoints";
                    return Err(self.fault(Mark { line: 1, column: 1 }, "the file is empty", hint));
                }
                event => {
                    self.value(None, event, &span)?;
                    break;
                }
            }
        }
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(()),
                (Event::DocumentEnd, _) => {}
                (_, span) => {
                    let hint = "remove the line `---` and what follows it";
                    return Err(self.fault(Mark::from(&span), "a second document begins here", hint));
                }
            }
        }
    }

    fn add(&mut self, mark: Mark, parent: Option<(NodeId, Step)>, value: Value) -> Result<NodeId, Stopped> {
        if self.nodes.len() >= NODES_MAX {
            let message = format!("the file has more than {NODES_MAX} values, those of aliases included");
            return Err(self.fault(mark, message, "use fewer aliases"));
        }
        self.nodes.push(Node { mark, parent, value });
        Ok(NodeId(self.nodes.len() - 1))
    }

    /// Reads the node that begins with `event`. Recursion is bounded by the parser's nesting limits.
    fn value(
        &mut self,
        parent: Option<(NodeId, Step)>,
        event: Event<'a>,
        span: &Span,
    ) -> Result<NodeId, Stopped> {
        let mark = Mark::from(span);
        let (id, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let tagged = tag
                    .as_deref()
                    .is_some_and(|tag| tag.is_yaml_core_schema_tag("str"));
                if tag.is_some() && !tagged {
                    return Err(self.tagged(mark));
                }
                let plain = style == ScalarStyle::Plain && !tagged;
                (
                    self.add(
                        mark,
                        parent,
                        Value::Scalar {
                            text: text.into_owned(),
                            plain,
                        },
                    )?,
                    anchor,
                )
            }
            Event::SequenceStart(_, anchor, tag) => {
                if tag.is_some() {
                    return Err(self.tagged(mark));
                }
                let id = self.add(mark, parent, Value::List(Vec::new()))?;
                self.list(id)?;
                (id, anchor)
            }
            Event::MappingStart(_, anchor, tag) => {
                if tag.is_some() {
                    return Err(self.tagged(mark));
                }
                let id = self.add(mark, parent, Value::Map(Vec::new()))?;
                self.map(id)?;
                (id, anchor)
            }
            Event::Alias(anchor) => {
                let Some(&original) = self.anchors.get(&anchor) else {
                    return Err(self.fault(
                        mark,
                        "the alias stands inside what it refers to",
                        "write the value out",
                    ));
                };
                return self.copy(original, parent);
            }
            _ => return Err(self.fault(mark, "a value is expected here", "")),
        };
        if anchor > 0 {
            self.anchors.insert(anchor, id);
        }
        Ok(id)
    }

    fn tagged(&mut self, mark: Mark) -> Stopped {
        self.fault(
            mark,
            "YAML tags (`!…`) are not supported",
            "remove the tag; put text in quotes",
        )
    }

    fn list(&mut self, id: NodeId) -> Result<(), Stopped> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => break,
                (event, span) => {
                    items.push(self.value(Some((id, Step::Index(items.len()))), event, &span)?)
                }
            }
        }
        self.nodes[id.0].value = Value::List(items);
        Ok(())
    }

    fn map(&mut self, id: NodeId) -> Result<(), Stopped> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen: HashMap<String, usize> = HashMap::new();
        let mut merged = Vec::new();
        loop {
            let (event, span) = self.next()?;
            let mark = Mark::from(&span);
            let (key, merge) = match event {
                Event::MappingEnd => break,
                Event::Scalar(text, style, ..) => {
                    let merge = text == "<<" && style == ScalarStyle::Plain;
                    (text.into_owned(), merge)
                }
                _ => return Err(self.fault(mark, "a key must be plain text", "")),
            };
            let (event, span) = self.next()?;
            let value = self.value(Some((id, Step::Key(key.clone()))), event, &span)?;
            if merge {
                merged.push((mark, value));
            } else if let Some(&first) = seen.get(&key) {
                let path = Tree::path_of(&self.nodes, value);
                let message = format!("the key `{}` is here twice, first on line {first}", shorten(&key));
                self.report((mark, path), message, "keep one of them");
            } else {
                seen.insert(key.clone(), mark.line);
                entries.push(Entry { key, mark, value });
            }
        }
        for (mark, value) in merged {
            self.merge(id, &mut entries, (mark, value))?;
        }
        self.nodes[id.0].value = Value::Map(entries);
        Ok(())
    }

    /// Takes over what a merge key names: keys that the map has itself, or got from an earlier one, stay.
    fn merge(&mut self, map: NodeId, entries: &mut Vec<Entry>, from: (Mark, NodeId)) -> Result<(), Stopped> {
        let sources = match &self.nodes[from.1.0].value {
            Value::List(items) => items.clone(),
            _ => vec![from.1],
        };
        for source in sources {
            let Value::Map(source) = self.nodes[source.0].value.clone() else {
                return Err(self.fault(from.0, "`<<` takes a map or a list of maps", "write `<<: *name`"));
            };
            for entry in source {
                if !entries.iter().any(|own| own.key == entry.key) {
                    self.nodes[entry.value.0].parent = Some((map, Step::Key(entry.key.clone())));
                    entries.push(entry);
                }
            }
        }
        Ok(())
    }

    /// Copies a finished subtree to where an alias stands. Its depth is bounded because the original's was, and copies
    /// of copies run into the bound on nodes.
    fn copy(&mut self, original: NodeId, parent: Option<(NodeId, Step)>) -> Result<NodeId, Stopped> {
        let mark = self.nodes[original.0].mark;
        let value = self.nodes[original.0].value.clone();
        let id = self.add(mark, parent, Value::List(Vec::new()))?;
        self.nodes[id.0].value = match value {
            Value::Scalar { .. } => value,
            Value::List(items) => {
                let mut copies = Vec::with_capacity(items.len());
                for (index, item) in items.into_iter().enumerate() {
                    copies.push(self.copy(item, Some((id, Step::Index(index))))?);
                }
                Value::List(copies)
            }
            Value::Map(entries) => {
                let mut copies = Vec::with_capacity(entries.len());
                for Entry { key, mark, value } in entries {
                    let value = self.copy(value, Some((id, Step::Key(key.clone()))))?;
                    copies.push(Entry { key, mark, value });
                }
                Value::Map(copies)
            }
        };
        Ok(id)
    }
}

/// Cuts text for a message and makes control characters visible.
pub(crate) fn shorten(text: &str) -> String {
    const SHOWN_MAX: usize = 60;
    let mut shown: String = text
        .chars()
        .take(SHOWN_MAX)
        .flat_map(|c| {
            if c.is_control() {
                c.escape_default().collect::<Vec<_>>()
            } else {
                vec![c]
            }
        })
        .collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    shown
}
