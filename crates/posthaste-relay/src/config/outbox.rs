//! Reads one `[outbox.NAME]`: the store, the settings of the engine, and the routes.

use std::fmt::Display;

use posthaste_redis::OutboxName;
use posthaste_sqlx::{Layout, SchemaName, TableName};
use posthaste_stores::{KNOWN_URLS, SecretUrl, StoreSpec, StoreUrl, has_known_scheme};
use toml::de::DeTable;

use super::section::Section;
use super::{OutboxConfig, engine, foreign_layout, route, route_check};

pub(super) fn outbox<'i>(
    section: &Section<'_, 'i>,
    name: &str,
    defaults: &DeTable<'i>,
) -> Option<OutboxConfig> {
    let layout = foreign_layout::layout(section);
    let migrate = section.flag("migrate");
    // The program that owns a foreign table creates it.
    if migrate && layout.is_some() {
        section.wrong(
            "migrate",
            "creates a table of Posthaste's own, and the layout describes another one: \
             leave out one of them",
        );
    }
    let config = engine::config(section, name, defaults, layout.as_ref());
    let routes = route::routes(section);
    route_check::check(&routes);
    let routes = routes.into_iter().map(|read| read.config).collect();
    let store = store(section, layout);
    if store.is_none() {
        // After all other checks, because the key may be there with a misspelt name, which has been reported by then.
        let what = "is missing: write where the outbox is, as in store = \"postgres://user@host/database\"";
        section.missing("store", what);
    }
    Some(OutboxConfig { store: store?, migrate, config: config?, routes })
}

fn store(section: &Section<'_, '_>, layout: Option<Layout>) -> Option<StoreSpec> {
    let (table, schema) = (section.text("table"), section.text("schema"));
    let pgbouncer = section.flag("pgbouncer");
    let text = section.text("store")?;
    let kind = section.check("store", Some(&text), |url| kind(url))?;
    let is_redis = matches!(kind, StoreUrl::Redis(_) | StoreUrl::RedisCluster(_));
    let is_postgres = matches!(kind, StoreUrl::Postgres(_));
    let table = section.check("table", table, |name| match is_redis {
        true => OutboxName::new(&name).map(|_| name).map_err(without_value),
        false => name.parse::<TableName>().map(|_| name).map_err(without_value),
    });
    let for_postgres = || "is for PostgreSQL only: leave it out".to_owned();
    let schema = section.check("schema", schema, |name| match is_postgres {
        true => name.parse::<SchemaName>().map_err(without_value),
        false => Err(for_postgres()),
    });
    if pgbouncer && !is_postgres {
        section.wrong("pgbouncer", for_postgres());
    }
    if layout.is_some() {
        if !matches!(kind, StoreUrl::Postgres(_) | StoreUrl::MySql(_)) {
            section.wrong("store", "cannot have a layout: layouts are for PostgreSQL, MySQL and MariaDB");
        }
        if pgbouncer {
            section.wrong("pgbouncer", "a layout needs a session of its own: name the server itself");
        }
    }
    let store = StoreSpec::new(SecretUrl::new(text)).with_table(table).with_schema(schema);
    Some(store.with_layout(layout).with_pgbouncer(pgbouncer))
}

fn kind(url: &str) -> Result<StoreUrl, String> {
    if !has_known_scheme(url) {
        return Err(format!("is not the URL of a known store: write {KNOWN_URLS}"));
    }
    match url.parse() {
        Ok(StoreUrl::Memory) => {
            Err("no other process can write into the memory of a relay: name a database".to_owned())
        }
        kind => kind.map_err(|error| error.to_string()),
    }
}

/// Removes the name from the error. The name may be a secret, and the excerpt of the line shows it if it is not.
fn without_value(error: impl Display) -> String {
    error.to_string().rsplit_once(" cannot name ").map_or_else(
        || "cannot be a name: use letters, digits and _".to_owned(),
        |(_, rest)| format!("cannot name {rest}"),
    )
}
