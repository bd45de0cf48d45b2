//! The OpenAPI document, made from the table of routes.

use axum::http::Method;
use serde_json::{Map, Value, json};

use super::fields::{self, Field};
use super::routes::{Answers, Needs, ROUTES, Route};
use super::schemas::{reference, schemas};

pub(super) fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = operation(route);
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
            "schemas": schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn operation(route: &Route) -> Value {
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.summary,
        "description": role(route.needs),
        "security": match route.needs {
            Needs::Nothing => json!([]),
            Needs::Viewer | Needs::Operator => json!([{"token": []}]),
        },
        "parameters": parameters(route),
        "responses": responses(route),
    });
    if !route.body.is_empty() {
        operation["requestBody"] = body(route);
    }
    operation
}

fn role(needs: Needs) -> &'static str {
    match needs {
        Needs::Nothing => "Needs no token.",
        Needs::Viewer => "Needs the role viewer or operator.",
        Needs::Operator => "Needs the role operator.",
    }
}

fn parameters(route: &Route) -> Vec<Value> {
    let of_path = route.path_fields().map(|field| parameter(field, "path", true));
    of_path.chain(route.query.iter().map(|field| parameter(field, "query", field.required))).collect()
}

fn parameter(field: &Field, place: &str, required: bool) -> Value {
    json!({
        "name": field.name, "in": place, "required": required,
        "description": field.about, "schema": field.kind.schema(),
    })
}

fn body(route: &Route) -> Value {
    let forms: Vec<Value> = route.body.iter().map(|form| fields::object(form)).collect();
    let schema = json!({"oneOf": forms});
    json!({"required": true, "content": {"application/json": {"schema": schema}}})
}

fn responses(route: &Route) -> Value {
    let mut responses = Map::new();
    responses.insert("200".to_owned(), success(route.answers));
    for (status, meaning) in refusals(route) {
        let schema = reference("Error");
        let refusal = json!({"description": meaning, "content": {"application/json": {"schema": schema}}});
        responses.insert(status.to_owned(), refusal);
    }
    if let Answers::Ready(schema) = route.answers {
        let content = json!({"application/json": {"schema": reference(schema)}});
        responses.insert("503".to_owned(), json!({"description": "It is not ready", "content": content}));
    }
    Value::Object(responses)
}

fn success(answers: Answers) -> Value {
    let (media, schema) = match answers {
        Answers::Json(schema) | Answers::Ready(schema) => ("application/json", reference(schema)),
        Answers::Object => ("application/json", json!({"type": "object"})),
        Answers::Text(media) => (media, json!({"type": "string"})),
    };
    json!({"description": "What was asked for", "content": {media: {"schema": schema}}})
}

/// What else a route may answer. Every route refuses a parameter that it does not know.
pub(super) fn refusals(route: &Route) -> Vec<(&'static str, &'static str)> {
    let mut refusals = vec![
        ("400", "A parameter, or the body, breaks a rule"),
        ("421", "There are no tokens, and Host is not a name of this machine"),
        ("500", "The relay failed in a way that nobody expected"),
    ];
    if route.needs != Needs::Nothing {
        refusals.push(("401", "There is no token, or one that the relay does not know"));
        refusals.push(("503", "The store does not answer, or the relay has too much to do"));
    }
    if route.needs == Needs::Operator || route.method != Method::GET {
        refusals.push(("403", "The role is too low, or there are no tokens and a web page asks"));
    }
    if route.path.contains('{') {
        refusals.push(("404", "There is no such outbox, event or route"));
        refusals.push(("422", "This kind of store cannot do it"));
    }
    if !route.body.is_empty() {
        refusals.push(("413", "The body is too large"));
        refusals.push(("415", "The body does not say that it is JSON"));
    }
    refusals
}
