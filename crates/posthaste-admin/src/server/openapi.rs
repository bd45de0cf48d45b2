//! OpenAPI document, made from the table of endpoints and the schemas in `wire`.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::access::RequiredRole;
use super::endpoint::{Endpoint, Success};
use super::endpoints::{ENDPOINTS, schema};
use super::params::{self, Param};
use crate::wire;

/// The document of the endpoints that satisfy this condition.
pub(super) fn document(is_served: impl Fn(&Endpoint) -> bool) -> Value {
    let mut schemas = generator();
    let mut paths: Map<String, Value> = Map::new();
    for endpoint in ENDPOINTS.iter().filter(|endpoint| is_served(endpoint)) {
        let path = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        path[endpoint.method.as_str().to_lowercase()] = operation(endpoint, &mut schemas);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Posthaste relay",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Health, metrics and the operator's API of a running relay.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": schemas.take_definitions(true),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

/// OpenAPI 3.1 uses JSON Schema of this draft, with the definitions below `components`.
fn generator() -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.with(|settings| settings.definitions_path = "/components/schemas".into()).into_generator()
}

fn operation(endpoint: &Endpoint, schemas: &mut SchemaGenerator) -> Value {
    let mut operation = json!({
        "operationId": endpoint.id,
        "summary": endpoint.summary,
        "description": role(endpoint.required_role),
        "security": match endpoint.required_role {
            RequiredRole::Nothing => json!([]),
            RequiredRole::Viewer | RequiredRole::Operator => json!([{"token": []}]),
        },
        "parameters": parameters(endpoint),
        "responses": responses(endpoint, schemas),
    });
    if !endpoint.body.is_empty() {
        operation["requestBody"] = body(endpoint);
    }
    operation
}

fn role(required_role: RequiredRole) -> &'static str {
    match required_role {
        RequiredRole::Nothing => "Needs no token.",
        RequiredRole::Viewer => "Needs the role viewer or operator.",
        RequiredRole::Operator => "Needs the role operator.",
    }
}

fn parameters(endpoint: &Endpoint) -> Vec<Value> {
    let of_path = endpoint.path_params().map(|param| parameter(param, "path", true));
    of_path.chain(endpoint.query.iter().map(|param| parameter(param, "query", param.required))).collect()
}

fn parameter(param: &Param, place: &str, required: bool) -> Value {
    json!({
        "name": param.name, "in": place, "required": required,
        "description": param.about, "schema": param.kind.schema(),
    })
}

fn body(endpoint: &Endpoint) -> Value {
    let forms: Vec<Value> = endpoint.body.iter().map(|form| params::object(form)).collect();
    let schema = json!({"oneOf": forms});
    json!({"required": true, "content": {"application/json": {"schema": schema}}})
}

fn responses(endpoint: &Endpoint, schemas: &mut SchemaGenerator) -> Value {
    let mut responses = Map::new();
    responses.insert("200".to_owned(), success(&endpoint.success, schemas));
    for (status, meaning) in errors(endpoint) {
        let schema = schema::<wire::Error>(schemas);
        let error = json!({"description": meaning, "content": {"application/json": {"schema": schema}}});
        responses.insert(status.to_owned(), error);
    }
    if let Success::Ready(schema) = endpoint.success {
        let content = json!({"application/json": {"schema": schema(schemas)}});
        responses.insert("503".to_owned(), json!({"description": "It is not ready", "content": content}));
    }
    Value::Object(responses)
}

fn success(success: &Success, schemas: &mut SchemaGenerator) -> Value {
    let (media, schema) = match success {
        Success::Json(schema) | Success::Ready(schema) => ("application/json", schema(schemas).to_value()),
        Success::Object => ("application/json", json!({"type": "object"})),
        Success::Text(media) => (*media, json!({"type": "string"})),
    };
    json!({"description": "Success", "content": {media: {"schema": schema}}})
}

/// The errors of an endpoint. All refuse unknown parameters.
pub(super) fn errors(endpoint: &Endpoint) -> Vec<(&'static str, &'static str)> {
    let mut errors = vec![
        ("400", "A parameter, or the body, breaks a rule"),
        ("403", "The role is too low, or there are no tokens and the request is not from this machine"),
        ("421", "There are no tokens, and Host is not a name of this machine"),
        ("500", "The relay failed unexpectedly"),
    ];
    if endpoint.required_role != RequiredRole::Nothing {
        errors.push(("401", "The token is missing or unknown"));
        errors.push(("503", "The store does not reply, or the relay is overloaded"));
    }
    if endpoint.path.contains('{') {
        errors.push(("404", "There is no such outbox, event or route"));
        errors.push(("422", "This kind of store cannot do it"));
    }
    if !endpoint.body.is_empty() {
        errors.push(("413", "The body is too large"));
        errors.push(("415", "The body does not say that it is JSON"));
    }
    errors
}
