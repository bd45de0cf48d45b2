//! Writes a configuration as the file that would mean the same, with every default and without secrets.

use std::time::Duration;

use posthaste::{Config, Mode, RetryPolicy};
use posthaste_admin::Role;
use posthaste_sqlx::foreign::{Field, Layout, State};
use toml::{Table, Value};

use super::engine::UNSUPPORTED;
use super::target::format_name;
use super::{AdminConfig, OutboxConfig, RelayConfig, RouteConfig, Target, WebhookConfig};
use posthaste_stores::{is_webhook, redact};

/// Parameters of URLs that are no secrets.
const PUBLIC_URL_PARAMETERS: &[&str] = &[
    "application_name",
    "approximate",
    "batch",
    "ca",
    "core",
    "dbname",
    "exchange",
    "format",
    "fsync",
    "host",
    "hostaddr",
    "linger",
    "max_message_bytes",
    "maxlen",
    "mode",
    "port",
    "protocol",
    "routing_key",
    "socket",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "ssl-mode",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "stream",
    "timeout",
];

/// The document, with `***` for secrets.
pub fn shown(config: &RelayConfig) -> Table {
    let outboxes =
        config.outboxes.iter().map(|outbox| (outbox.config.name.clone(), Value::Table(shown_outbox(outbox))));
    let mut document = Table::new();
    document.insert("admin".to_owned(), Value::Table(admin(&config.admin)));
    document.insert("log".to_owned(), Value::Table(log(config)));
    document.insert("outbox".to_owned(), Value::Table(outboxes.collect()));
    document
}

fn admin(admin: &AdminConfig) -> Table {
    let tokens = admin.tokens.iter().map(|token| {
        let role = match token.role {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
        };
        let table = table([("role", text(role)), ("token", text(&token.secret))]);
        (token.name.clone(), Value::Table(table))
    });
    let tokens: Table = tokens.collect();
    let listen = admin.listen.map_or_else(|| text("off"), text);
    let mut table = table([("listen", listen), ("ready_lag", duration(admin.ready_lag))]);
    if !tokens.is_empty() {
        table.insert("tokens".to_owned(), Value::Table(tokens));
    }
    table
}

fn log(config: &RelayConfig) -> Table {
    let format = match config.log.format {
        super::LogFormat::Text => "text",
        super::LogFormat::Json => "json",
    };
    table([("format", text(format)), ("level", text(&config.log.level))])
}

fn shown_outbox(outbox: &OutboxConfig) -> Table {
    let place = outbox.store.outbox_ref();
    let mut shown = engine(&outbox.config);
    let relay = [
        ("store", text(shown_url(outbox.store.url.expose()))),
        ("table", text(&place.table)),
        ("migrate", Value::Boolean(outbox.migrate)),
        ("pgbouncer", Value::Boolean(outbox.store.pgbouncer)),
        ("route", Value::Array(outbox.routes.iter().map(|route| Value::Table(shown_route(route))).collect())),
    ];
    shown.extend(table(relay));
    if let Some(layout) = &outbox.store.layout {
        shown.insert("layout".to_owned(), Value::Table(shown_layout(layout)));
    }
    if outbox.store.url.expose().starts_with("postgres") {
        shown.insert("schema".to_owned(), text(place.schema.unwrap_or_default()));
    }
    shown
}

/// Column by column, whatever preset it began with.
fn shown_layout(layout: &Layout) -> Table {
    let columns =
        Field::ALL.into_iter().filter_map(|field| Some((field.name(), text(layout.column_of(field)?))));
    let values =
        State::ALL.into_iter().filter_map(|state| Some((state.name(), text(layout.value_of(state)?))));
    let key = Value::Array(layout.key_columns().into_iter().map(text).collect());
    let all = columns.chain(values).chain([("key", key)]);
    all.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The engine's settings, with what its mode makes of those that are left open.
fn engine(config: &Config) -> Table {
    let mut config = config.clone();
    if config.mode != Mode::Ordered {
        config.workers.get_or_insert(4);
        config.retry.get_or_insert_with(RetryPolicy::default);
    }
    if config.mode == Mode::MultiNode {
        config.no_route_grace.get_or_insert(Duration::from_secs(600));
    }
    // Numbers, texts and tables: there is nothing that could fail.
    let mut table = Table::try_from(config).unwrap_or_default();
    table.retain(|key, _| UNSUPPORTED.iter().all(|(useless, _)| *useless != key));
    table
}

fn shown_route(route: &RouteConfig) -> Table {
    let mut shown = table([
        ("name", text(&route.name)),
        ("aggregate", text(&route.aggregate)),
        ("event", text(&route.event)),
        ("publish", publish(route)),
    ]);
    let mut put = |key: &str, value: Option<Value>| {
        value.into_iter().for_each(|value| {
            shown.insert(key.to_owned(), value);
        });
    };
    put("tenant", route.tenant.as_ref().map(text));
    put("concurrency", route.concurrency.map(whole));
    put("rate", route.rate.map(Value::Float));
    put("timeout", route.timeout.map(duration));
    put("batch", route.batch.map(whole));
    // They are the same for all destinations that have them.
    put("format", route.publish.iter().find_map(|target| target.format).and_then(format_name).map(text));
    let webhook = route.publish.iter().find_map(|target| target.webhook.as_ref());
    put("webhook", webhook.map(|webhook| Value::Table(shown_webhook(webhook))));
    shown
}

fn shown_webhook(webhook: &WebhookConfig) -> Table {
    let headers: Table = webhook.headers.iter().map(|(name, value)| (name.clone(), text(value))).collect();
    let networks: Vec<Value> = webhook.allow_networks.iter().map(text).collect();
    let mut shown = table([("allow_http", Value::Boolean(webhook.allow_http))]);
    let mut put = |key: &str, value: Option<Value>| {
        value.into_iter().for_each(|value| {
            shown.insert(key.to_owned(), value);
        });
    };
    put("signing_key", webhook.signing_key.as_ref().map(text));
    put("previous_signing_key", webhook.previous_signing_key.as_ref().map(text));
    put("headers", (!headers.is_empty()).then_some(Value::Table(headers)));
    put("allow_networks", (!networks.is_empty()).then_some(Value::Array(networks)));
    put("requests", webhook.requests.map(whole));
    put("connect_timeout", webhook.connect_timeout.map(duration));
    put("max_body_bytes", webhook.max_body_bytes.map(whole));
    put("ca", webhook.ca.as_ref().map(|ca| text(&ca.path)));
    shown
}

fn publish(route: &RouteConfig) -> Value {
    let url = |target: &Target| text(shown_url(target.url.expose()));
    match route.publish.as_slice() {
        [only] if only.name.is_none() => url(only),
        several => {
            let named = several.iter().map(|target| (target.name.clone().unwrap_or_default(), url(target)));
            Value::Table(named.collect())
        }
    }
}

/// A URL without its user, its password and the values of its parameters, but for those that are no secrets.
fn shown_url(url: &str) -> String {
    let place = redact(url);
    let query = url.split_once('?').map_or("", |(_, query)| query);
    // Whatever a webhook's parameters are called, they are the receiver's.
    if url.starts_with("sqlite:") || is_webhook(url) || query.is_empty() || query.contains('@') {
        return place;
    }
    let parameter = |pair: &str| {
        let (name, _) = pair.split_once('=').unwrap_or((pair, ""));
        if PUBLIC_URL_PARAMETERS.contains(&name) { pair.to_owned() } else { format!("{name}=***") }
    };
    format!("{place}?{}", query.split('&').map(parameter).collect::<Vec<_>>().join("&"))
}

fn table<const N: usize>(entries: [(&str, Value); N]) -> Table {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn text(value: impl ToString) -> Value {
    Value::String(value.to_string())
}

fn duration(value: Duration) -> Value {
    text(humantime::format_duration(value))
}

fn whole(value: usize) -> Value {
    Value::Integer(i64::try_from(value).unwrap_or(i64::MAX))
}
