//! The table of endpoints: each with every role, with and without tokens, and in the OpenAPI document.

use std::collections::BTreeSet;

use axum::http::{HeaderValue, Method};
use serde_json::{Map, Value, json};

use super::support::{ApiFixture, OPERATOR_TOKEN, VIEWER_TOKEN, request};
use crate::server::access::RequiredRole;
use crate::server::endpoint::Endpoint;
use crate::server::endpoints::ENDPOINTS;
use crate::server::openapi;
use crate::server::params::{Param, ParamKind};

/// The callers, each with the token that it sends.
const CALLERS: [(&str, Option<&str>); 4] = [
    ("a caller without a token", None),
    ("a stranger", Some("x-0123456789abcdef")),
    ("a viewer", Some(VIEWER_TOKEN)),
    ("an operator", Some(OPERATOR_TOKEN)),
];

fn path(endpoint: &Endpoint) -> String {
    endpoint.path.replace("{outbox}", "orders").replace("{id}", "dead-0").replace("{route}", "mail")
}

/// The smallest body that the first form of the endpoint accepts.
fn body(endpoint: &Endpoint) -> Option<Value> {
    let required = |field: &&Param| field.required;
    let value = |field: &Param| match field.kind {
        ParamKind::Choice(words) => json!(words[0]),
        ParamKind::Age => json!("7d"),
        ParamKind::Ids(_) => json!(["dead-0"]),
        ParamKind::Object(_) => json!({}),
        ParamKind::Text(_) | ParamKind::Number(..) | ParamKind::Flag => {
            panic!("no required field has this type yet")
        }
    };
    let form = endpoint.body.first()?;
    let fields: Map<String, Value> =
        form.iter().filter(required).map(|field| (field.name.to_owned(), value(field))).collect();
    Some(Value::Object(fields))
}

fn expected(required_role: RequiredRole, caller: &str) -> u16 {
    match (required_role, caller) {
        (RequiredRole::Nothing, _) | (_, "an operator") | (RequiredRole::Viewer, "a viewer") => 200,
        (RequiredRole::Operator, "a viewer") => 403,
        _ => 401,
    }
}

#[tokio::test]
async fn every_endpoint_admits_only_callers_with_its_role() {
    for endpoint in ENDPOINTS {
        for (caller, token) in CALLERS {
            for tokens in [true, false] {
                let support = if tokens { ApiFixture::guarded() } else { ApiFixture::open() };
                let before = format!("{:?}", support.store.rows());
                let sent = request(endpoint.method.clone(), &path(endpoint), token, body(endpoint));
                let response = support.open_stream(sent).await;
                let expected = if tokens { expected(endpoint.required_role, caller) } else { 200 };
                let case = format!("{} {} by {caller}, tokens: {tokens}", endpoint.method, endpoint.path);
                assert_eq!(response.status(), expected, "{case}");
                assert_eq!(response.headers()["x-content-type-options"], "nosniff", "{case}");
                assert_eq!(response.headers()["cache-control"], "no-store", "{case}");
                let challenge = response.headers().get("www-authenticate").map(HeaderValue::as_bytes);
                assert_eq!(challenge, (expected == 401).then_some(&b"Bearer"[..]), "{case}");
                if expected != 200 {
                    assert_eq!(format!("{:?}", support.store.rows()), before, "{case}");
                }
            }
        }
    }
}

/// The rule is stated independently of the table.
#[test]
fn every_endpoint_that_changes_something_needs_an_operator() {
    for endpoint in ENDPOINTS {
        let public = ["/health/live", "/health/ready", "/metrics", "/openapi.json"].contains(&endpoint.path);
        let required_role = match endpoint.method {
            Method::GET if public => RequiredRole::Nothing,
            Method::GET => RequiredRole::Viewer,
            _ => RequiredRole::Operator,
        };
        assert_eq!(endpoint.required_role, required_role, "{}", endpoint.path);
        assert!(public || endpoint.path.starts_with("/api/v1/"), "{}", endpoint.path);
    }
}

#[test]
fn every_endpoint_is_in_the_document_once() {
    let document = openapi::document(|_| true);
    let mut ids = BTreeSet::new();
    for endpoint in ENDPOINTS {
        let operation = &document["paths"][endpoint.path][endpoint.method.as_str().to_lowercase()];
        assert_eq!(operation["operationId"], endpoint.id);
        assert!(ids.insert(endpoint.id), "{} is there twice", endpoint.id);
        let parameters = operation["parameters"].as_array().unwrap().len();
        assert_eq!(
            parameters,
            endpoint.query.len() + endpoint.path.matches('{').count(),
            "{}",
            endpoint.path
        );
    }
    let operations = document["paths"].as_object().unwrap().values();
    assert_eq!(operations.map(|path| path.as_object().unwrap().len()).sum::<usize>(), ENDPOINTS.len());
}

#[test]
fn document_refers_only_to_schemas_that_it_has() {
    let document = openapi::document(|_| true);
    let text = document.to_string();
    let mut used = text.split("#/components/schemas/").skip(1).map(|rest| rest.split('"').next().unwrap());
    assert!(used.all(|name| document["components"]["schemas"][name].is_object()));
}

/// The page has a line for each endpoint, with the role and the summary of the table.
#[test]
fn manual_lists_every_endpoint_with_its_role() {
    let manual = include_str!("../../../../../docs/admin-api.md");
    for endpoint in ENDPOINTS {
        let role = match endpoint.required_role {
            RequiredRole::Nothing => "none",
            RequiredRole::Viewer => "viewer",
            RequiredRole::Operator => "operator",
        };
        let line = format!("| `{} {}` | {role} | {} |", endpoint.method, endpoint.path, endpoint.summary);
        assert!(manual.contains(&line), "docs/admin-api.md lacks the line\n{line}");
    }
}
