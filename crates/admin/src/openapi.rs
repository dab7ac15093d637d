//! The OpenAPI document, made from the table.

use crate::answer::{Answer, JSON, Result};
use crate::table::{Access, Call, Media, ROUTES, Route};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// An OpenAPI 3.1 document.
#[derive(JsonSchema)]
#[serde(transparent)]
pub(crate) struct Document(#[expect(dead_code, reason = "stands for its schema alone")] Map<String, Value>);

/// What every call may answer.
const ALWAYS: [(u16, &str); 2] = [
    (400, "the request is wrong; the message says how to mend it"),
    (403, "the Host or Origin is not that of this listener"),
];

pub(crate) fn serve(_: &Call<'_>) -> Result<Answer> {
    Answer::json(&document())
}

/// The document.
pub(crate) fn document() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.meta_schema = None;
    settings.definitions_path = "/components/schemas".into();
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let verb = route.verb.method().as_str().to_ascii_lowercase();
        let operations = paths.entry(route.path).or_insert_with(|| json!({}));
        operations[verb] = operation(route, &mut generator);
    }
    let mut schemas = generator.take_definitions(true);
    schemas.insert("Error".to_owned(), error_schema());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Weighbridge admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What a running gateway does and why, and commands to it.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "The admin token."},
            },
        },
    })
}

fn operation(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let mut operation = json!({
        "operationId": operation_id(route),
        "summary": route.summary,
        "parameters": parameters(route),
        "responses": responses(route, generator),
    });
    operation["security"] = match route.access {
        Access::Token => json!([{"token": []}]),
        Access::Public => json!([]),
        // Without on loopback, with elsewhere.
        Access::PublicOnLoopback => json!([{}, {"token": []}]),
    };
    if let Some(body) = &route.body {
        operation["requestBody"] = json!({"required": true, "content": content(body, generator)});
    }
    operation
}

/// The method and the words of the path, such as `patchApiEndpointsPoolName`.
fn operation_id(route: &Route) -> String {
    let mut id = route.verb.method().as_str().to_ascii_lowercase();
    for word in route.path.split(|c: char| !c.is_ascii_alphanumeric()) {
        let (first, rest) = word.split_at(word.len().min(1));
        id.push_str(&first.to_ascii_uppercase());
        id.push_str(rest);
    }
    id
}

fn parameters(route: &Route) -> Vec<Value> {
    let in_path = route.path.split('{').skip(1).filter_map(|part| {
        let (name, _) = part.split_once('}')?;
        Some(json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
    });
    let in_query = route.query.iter().map(|parameter| {
        json!({
            "name": parameter.name,
            "in": "query",
            "description": parameter.about,
            "schema": {"type": parameter.kind},
        })
    });
    in_path.chain(in_query).collect()
}

fn responses(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let mut responses = Map::new();
    let good = json!({"description": "As asked.", "content": content(&route.answer, generator)});
    responses.insert("200".to_owned(), good);
    let token = (route.access != Access::Public).then_some((401, "the admin token is missing or wrong"));
    let body = route.body.map(|_| (413, "the body is larger than 1 MiB"));
    for (status, about) in ALWAYS
        .into_iter()
        .chain(token)
        .chain(body)
        .chain(route.others.iter().copied())
    {
        let content = match status {
            // Not ready is an answer like the good one.
            503 => content(&route.answer, generator),
            _ => json!({JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}),
        };
        responses.insert(
            status.to_string(),
            json!({"description": about, "content": content}),
        );
    }
    Value::Object(responses)
}

fn content(body: &Media, generator: &mut SchemaGenerator) -> Value {
    json!({body.media: {"schema": (body.schema)(generator)}})
}

fn error_schema() -> Value {
    json!({
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["message"],
                "properties": {
                    "message": {"type": "string", "description": "What is wrong and how to mend it."},
                    "problems": {"type": "array", "description": "Problems of a config that was refused."},
                },
            },
        },
    })
}
