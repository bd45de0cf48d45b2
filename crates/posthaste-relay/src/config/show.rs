//! Prints a configuration as a file with the same meaning, with all defaults and without secrets.

use std::net::SocketAddr;

use posthaste::Config;
use posthaste_admin::Token;
use posthaste_sqlx::foreign::{Field, Layout, State};
use posthaste_stores::{SecretUrl, is_webhook, redact};
use serde::{Serialize, Serializer};
use toml::{Table, Value};

use super::engine::UNSUPPORTED;
use super::target::format_name;
use super::{OutboxConfig, RelayConfig, RouteConfig, Target, WebhookConfig};

/// URL parameters whose values are not secret: those of PostgreSQL, of MySQL and MariaDB, and of publishers.
const PUBLIC_URL_PARAMETERS: &str = "
    application_name dbname host hostaddr port sslmode sslcert sslkey sslrootcert
    socket ssl-ca ssl-cert ssl-key ssl-mode
    approximate batch ca core exchange format fsync linger max_message_bytes maxlen mode protocol routing_key
    stream timeout
";

/// The configuration as TOML, with `***` in the place of secrets.
pub fn shown(config: &RelayConfig) -> Table {
    // This cannot fail: there are only numbers, texts and tables.
    Table::try_from(config).unwrap_or_default()
}

pub(super) fn or_off<S: Serializer>(address: &Option<SocketAddr>, serializer: S) -> Result<S::Ok, S::Error> {
    address.map_or("off".to_owned(), |address| address.to_string()).serialize(serializer)
}

pub(super) fn tokens<S: Serializer>(tokens: &[Token], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(tokens.iter().map(|token| (&token.name, token)))
}

pub(super) fn outboxes<S: Serializer>(outboxes: &[OutboxConfig], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(outboxes.iter().map(|outbox| (&outbox.config.name, ShownOutbox::of(outbox))))
}

#[derive(Serialize)]
struct ShownOutbox<'a> {
    store: String,
    table: String,
    schema: Option<String>,
    layout: Option<Table>,
    migrate: bool,
    pgbouncer: bool,
    route: &'a [RouteConfig],
    #[serde(flatten)]
    engine: Table,
}

impl<'a> ShownOutbox<'a> {
    fn of(outbox: &'a OutboxConfig) -> Self {
        let place = outbox.store.outbox_ref();
        let is_postgres = outbox.store.url.expose().starts_with("postgres");
        Self {
            store: shown_url(&outbox.store.url),
            table: place.table,
            schema: is_postgres.then(|| place.schema.unwrap_or_default().to_string()),
            layout: outbox.store.layout.as_ref().map(layout),
            migrate: outbox.migrate,
            pgbouncer: outbox.store.pgbouncer,
            route: &outbox.routes,
            engine: engine(&outbox.config),
        }
    }
}

/// Column by column, whatever preset it began with.
fn layout(layout: &Layout) -> Table {
    let text = |name: &str, value: &dyn ToString| (name.to_owned(), Value::String(value.to_string()));
    let columns =
        Field::ALL.into_iter().filter_map(|field| Some(text(field.name(), layout.column_of(field)?)));
    let values = State::ALL.into_iter().filter_map(|state| Some(text(state.name(), layout.value_of(state)?)));
    let key: Vec<String> = layout.key_columns().into_iter().map(ToString::to_string).collect();
    columns.chain(values).chain([("key".to_owned(), key.into())]).collect()
}

/// The settings of the engine. Those that are not set have the value that its mode gives them.
fn engine(config: &Config) -> Table {
    let mut table = Table::try_from(config.resolved()).unwrap_or_default();
    table.retain(|key, _| UNSUPPORTED.iter().all(|(useless, _)| *useless != key));
    table
}

/// `publish`, and the `format` and `webhook` that all destinations of a route share.
pub(super) fn destinations<S: Serializer>(targets: &[Target], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Destinations<'a> {
        publish: Value,
        format: Option<&'static str>,
        webhook: Option<&'a WebhookConfig>,
    }
    let url = |target: &Target| Value::String(shown_url(&target.url));
    let named = |target: &Target| (target.name.clone().unwrap_or_default(), url(target));
    let publish = match targets {
        [only] if only.name.is_none() => url(only),
        several => Value::Table(several.iter().map(named).collect()),
    };
    let format = targets.iter().find_map(|target| target.format).and_then(format_name);
    let webhook = targets.iter().find_map(|target| target.webhook.as_ref());
    Destinations { publish, format, webhook }.serialize(serializer)
}

/// The URL without its user and password, and with `***` for every parameter that is not known to be public.
fn shown_url(url: &SecretUrl) -> String {
    let url = url.expose();
    let place = redact(url);
    let query = url.split_once('?').map_or("", |(_, query)| query);
    // The parameters of a webhook belong to the receiver, so none of them is known to be public.
    if url.starts_with("sqlite:") || is_webhook(url) || query.is_empty() || query.contains('@') {
        return place;
    }
    let parameter = |pair: &str| {
        let (name, _) = pair.split_once('=').unwrap_or((pair, ""));
        let is_public = PUBLIC_URL_PARAMETERS.split_whitespace().any(|public| public == name);
        if is_public { pair.to_owned() } else { format!("{name}=***") }
    };
    format!("{place}?{}", query.split('&').map(parameter).collect::<Vec<_>>().join("&"))
}
