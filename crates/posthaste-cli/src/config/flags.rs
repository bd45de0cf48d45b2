//! A configuration from options alone: one outbox, named `outbox`.

use std::borrow::Cow;
use std::path::PathBuf;

use clap::Args;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::Source;
use super::environment::Environment;
use super::overrides::is_override;
use super::texts::{Origin, Span, Text, Texts};
use super::tree;
use crate::failure::Usage;
use crate::redact::TypedUrl;
use crate::store_args::{NO_STORE, parse_layout, typed_or_in_environment};
use crate::store_spec::StoreSpec;

/// Where the configuration is: in a file, or in the options.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConfigArgs {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) flags: Flags,
}

/// One outbox, without a file, and how its relay runs.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Without a file")]
pub(crate) struct Flags {
    #[command(flatten)]
    pub(crate) outbox: OutboxFlags,

    /// Create or upgrade the outbox table first
    #[arg(long)]
    pub(crate) migrate: bool,

    /// Where health, metrics and the API are served, or off [default: 127.0.0.1:9911]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
}

/// Where one outbox is, and where its events go.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Without a file")]
pub(crate) struct OutboxFlags {
    /// The store, such as postgres://shop@db.example/shop [env: POSTHASTE_STORE]
    // The variable is read later: it may be set while --config is given.
    #[arg(long = "store", value_name = "URL")]
    pub(crate) store: Option<TypedUrl>,

    /// Where events go: URL for all of them, or PATTERN=URL, such as 'Order.*=kafka://broker:9092/orders'
    ///
    /// A PATTERN is an aggregate type and an event type, as in Order.OrderPlaced, Order.* or Order:*, an event
    /// type of any aggregate, as in OrderPlaced, or * for everything; @TENANT may follow, which is a pattern
    /// too. Those without a * are asked first, then those with one in their order, and everything last. May be
    /// given several times.
    #[arg(long = "publish", value_name = "[PATTERN=]URL")]
    pub(crate) publish: Vec<TypedUrl>,

    /// The outbox table; on Redis, the name of the outbox [default: outbox_event; on Redis: outbox]
    #[arg(long, value_name = "NAME")]
    pub(crate) table: Option<String>,

    /// The schema that the table stands in, on PostgreSQL [default: public]
    #[arg(long, value_name = "NAME")]
    pub(crate) schema: Option<String>,

    /// The table is another's: order-service, outbox-record or debezium
    #[arg(long, value_name = "PRESET")]
    pub(crate) layout: Option<String>,

    /// The URL leads to a PgBouncer in transaction mode
    #[arg(long)]
    pub(crate) pgbouncer: bool,
}

impl OutboxFlags {
    /// The store alone, which the environment may name.
    pub(crate) fn store(&self) -> Result<StoreSpec, Usage> {
        let url = typed_or_in_environment(self.store.clone())?;
        let schema = self.schema.as_deref().map(str::parse).transpose();
        let schema = schema.map_err(|error| Usage::new(format!("--schema: {error}")))?;
        let layout = self.layout.as_deref().map(parse_layout).transpose();
        let layout = layout.map_err(|error| Usage::new(format!("--layout: {error}")))?;
        Ok(StoreSpec { url, table: self.table.clone(), schema, layout, pgbouncer: self.pgbouncer })
    }
}

impl ConfigArgs {
    /// What to read, now and when it is to be read again.
    pub(crate) fn source(&self) -> Result<Source, Usage> {
        let given = self.flags.given();
        match (&self.config, given.first()) {
            (Some(file), None) => Ok(Source::File(file.clone())),
            (Some(_), Some(flag)) => Err(Usage::new(format!(
                "--config and {flag} exclude each other: write it into the file, or leave out --config"
            ))),
            (None, _) if !self.flags.outbox.publish.is_empty() => {
                self.flags.source(&Environment::of_process())
            }
            (None, _) => Err(Usage::new(
                "there is nothing to deliver: name a file with --config posthaste.toml, or write --store URL and \
                 --publish 'PATTERN=URL'",
            )),
        }
    }
}

impl Flags {
    fn source(&self, environment: &Environment) -> Result<Source, Usage> {
        let named = self.outbox.store.is_some() || environment.get("POSTHASTE_STORE").is_ok();
        // An override may name it as well: that is seen when they are read.
        if named || environment.iter().any(|(name, _)| is_override(name)) {
            return Ok(Source::Flags(self.clone()));
        }
        Err(Usage::new(NO_STORE))
    }

    fn given(&self) -> Vec<&'static str> {
        let outbox = &self.outbox;
        let given = [
            ("--store", outbox.store.is_some()),
            ("--publish", !outbox.publish.is_empty()),
            ("--table", outbox.table.is_some()),
            ("--schema", outbox.schema.is_some()),
            ("--layout", outbox.layout.is_some()),
            ("--pgbouncer", outbox.pgbouncer),
            ("--migrate", self.migrate),
            ("--listen", self.listen.is_some()),
        ];
        given.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag).collect()
    }

    /// Puts what was typed in the row of texts.
    pub(super) fn collect(&self, environment: &Environment, texts: &mut Texts) {
        let typed = |url: &TypedUrl| url.secret().to_owned();
        let in_environment = || environment.get("POSTHASTE_STORE").ok().map(str::to_owned);
        let mut add = |flag: &'static str, text: Option<String>| {
            text.into_iter().for_each(|text| texts.add(Origin::Flag(flag), text));
        };
        let outbox = &self.outbox;
        add("--store", outbox.store.as_ref().map(typed).or_else(in_environment));
        add("--table", outbox.table.clone());
        add("--schema", outbox.schema.clone());
        add("--layout", outbox.layout.clone());
        add("--pgbouncer", outbox.pgbouncer.then(String::new));
        add("--migrate", self.migrate.then(String::new));
        add("--listen", self.listen.clone());
        outbox.publish.iter().for_each(|publish| add("--publish", Some(typed(publish))));
    }
}

/// The table that a file of the same meaning would be.
pub(super) fn table(texts: &Texts) -> DeTable<'_> {
    let (mut outbox, mut admin, mut routes) = (DeTable::new(), DeTable::new(), DeArray::default());
    for text in texts.iter() {
        let Origin::Flag(flag) = text.origin else { continue };
        let span = text.span();
        let yes = || Spanned::new(span.clone(), DeValue::Boolean(true));
        let typed = || tree::text(text.text.as_str(), &span);
        match flag {
            "--publish" => routes.push(route(text)),
            "--listen" => tree::put(&mut admin, tree::key("listen", &span), typed()),
            "--pgbouncer" | "--migrate" => tree::put(&mut outbox, tree::key(&flag[2..], &span), yes()),
            _ => tree::put(&mut outbox, tree::key(&flag[2..], &span), typed()),
        }
    }
    let nowhere = usize::MAX - 1..usize::MAX;
    tree::put(
        &mut outbox,
        tree::key("route", &nowhere),
        Spanned::new(nowhere.clone(), DeValue::Array(routes)),
    );
    let mut all = DeTable::new();
    tree::put(&mut all, tree::key("outbox", &nowhere), within("outbox", outbox, &nowhere));
    tree::put(&mut all, tree::key("admin", &nowhere), Spanned::new(nowhere.clone(), DeValue::Table(admin)));
    all
}

fn within<'i>(name: &'static str, table: DeTable<'i>, span: &Span) -> tree::Node<'i> {
    let mut outer = DeTable::new();
    tree::put(&mut outer, tree::key(name, span), Spanned::new(span.clone(), DeValue::Table(table)));
    Spanned::new(span.clone(), DeValue::Table(outer))
}

fn route(text: &Text) -> tree::Node<'_> {
    let span = text.span();
    let (pattern, url) = split(&text.text);
    let (types, tenant) = match pattern.rsplit_once('@') {
        Some((types, tenant)) => (types, Some(tenant)),
        None => (pattern, None),
    };
    let (aggregate, event) = match types.split_once(':').or_else(|| types.rsplit_once('.')) {
        Some(pair) => pair,
        None => ("*", types),
    };
    let mut route = DeTable::new();
    let mut put = |name: &'static str, value: &str| {
        tree::put(&mut route, tree::key(name, &span), tree::text(Cow::Owned(value.to_owned()), &span));
    };
    put("aggregate", aggregate);
    put("event", event);
    tenant.into_iter().for_each(|tenant| put("tenant", tenant));
    put("publish", url);
    Spanned::new(span, DeValue::Table(route))
}

/// A URL alone is for everything. A pattern holds no slash, and a URL has a colon before its first `=`.
fn split(typed: &str) -> (&str, &str) {
    match typed.split_once('=') {
        Some((pattern, url)) if !is_url(pattern) => (pattern, url),
        _ => ("*", typed),
    }
}

fn is_url(text: &str) -> bool {
    text.contains("://") || text.contains('?')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_split_from_urls() {
        for (typed, pattern, url) in [
            ("stdout:", "*", "stdout:"),
            ("Order.*=kafka://h/t?a=b", "Order.*", "kafka://h/t?a=b"),
            ("kafka://h/t?a=b", "*", "kafka://h/t?a=b"),
            ("stdout:?format=envelope", "*", "stdout:?format=envelope"),
            ("Order:*@acme-*=stdout:", "Order:*@acme-*", "stdout:"),
        ] {
            assert_eq!(split(typed), (pattern, url), "{typed}");
        }
    }
}
