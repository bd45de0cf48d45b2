//! Flags: a configuration from command-line options alone, with one outbox named `outbox`.

use posthaste_stores::SecretUrl;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::env_overrides::is_override;
use super::environment::Environment;
use super::source_text::{Origin, SourceText, SourceTexts};
use super::toml_tree;

/// The options of `posthaste relay` that describe one outbox without a file.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Flags {
    /// `--store`, the URL of the store. Default: the variable `POSTHASTE_STORE`.
    pub store: Option<SecretUrl>,
    /// `--publish`, the routes: each a URL for all events, or PATTERN=URL.
    pub publish: Vec<SecretUrl>,
    /// `--table`, the table; on Redis, the name of the outbox. Default: that of the store.
    pub table: Option<String>,
    /// `--schema`, on PostgreSQL. Default: `public`.
    pub schema: Option<String>,
    /// `--layout`, a preset for a foreign table. Default: a table of Posthaste's own.
    pub layout: Option<String>,
    /// `--pgbouncer`: the URL leads to a PgBouncer in transaction mode. Default: no.
    pub pgbouncer: bool,
    /// `--migrate`: create or upgrade the table first. Default: no.
    pub migrate: bool,
    /// `--listen`, the address of the admin listener, or `off`. Default: 127.0.0.1:9911.
    pub listen: Option<String>,
}

impl Flags {
    /// Whether an option or a variable names a store. Any override counts, because it may set the store; loading checks
    /// whether it does.
    pub fn names_a_store(&self) -> bool {
        let environment = Environment::of_process();
        let named = self.store.is_some() || environment.get("POSTHASTE_STORE").is_ok();
        named || environment.iter().any(|(name, _)| is_override(name))
    }

    /// Adds the values of the options to the source texts.
    pub(super) fn collect(&self, environment: &Environment, texts: &mut SourceTexts) {
        let typed = |url: &SecretUrl| url.expose().to_owned();
        let in_environment = || environment.get("POSTHASTE_STORE").ok().map(str::to_owned);
        let mut add = |flag: &'static str, text: Option<String>| {
            text.into_iter().for_each(|text| texts.add(Origin::Flag(flag), text));
        };
        add("--store", self.store.as_ref().map(typed).or_else(in_environment));
        add("--table", self.table.clone());
        add("--schema", self.schema.clone());
        add("--layout", self.layout.clone());
        add("--pgbouncer", self.pgbouncer.then(String::new));
        add("--migrate", self.migrate.then(String::new));
        add("--listen", self.listen.clone());
        self.publish.iter().for_each(|publish| add("--publish", Some(typed(publish))));
    }
}

/// The TOML table of a file with the same meaning.
pub(super) fn table(texts: &SourceTexts) -> DeTable<'_> {
    let mut routes = DeArray::default();
    let (mut outbox, mut all) = (DeTable::new(), DeTable::new());
    for text in texts.iter() {
        let Origin::Flag(flag) = text.origin else { continue };
        let typed = toml_tree::text(text.text.as_str(), &text.span());
        match &flag[2..] {
            "publish" => routes.push(route(text)),
            "listen" => toml_tree::put(&mut all, "admin", nested("listen", typed)),
            switch @ ("pgbouncer" | "migrate") => {
                toml_tree::put(&mut outbox, switch, Spanned::new(text.span(), DeValue::Boolean(true)));
            }
            key => toml_tree::put(&mut outbox, key, typed),
        }
    }
    let nowhere = usize::MAX - 1..usize::MAX;
    toml_tree::put(&mut outbox, "route", Spanned::new(nowhere.clone(), DeValue::Array(routes)));
    let outbox = Spanned::new(nowhere, DeValue::Table(outbox));
    toml_tree::put(&mut all, "outbox", nested("outbox", outbox));
    all
}

/// A table with this one value.
fn nested<'i>(key: &'i str, value: toml_tree::Node<'i>) -> toml_tree::Node<'i> {
    let mut table = DeTable::new();
    let span = value.span();
    toml_tree::put(&mut table, key, value);
    Spanned::new(span, DeValue::Table(table))
}

fn route(text: &SourceText) -> toml_tree::Node<'_> {
    let span = text.span();
    let (pattern, url) = split(&text.text);
    let (types, tenant) = match pattern.rsplit_once('@') {
        Some((types, tenant)) => (types, Some(tenant)),
        None => (pattern, None),
    };
    let (aggregate, event) = types.split_once(':').or_else(|| types.rsplit_once('.')).unwrap_or(("*", types));
    let keys =
        [("aggregate", Some(aggregate)), ("event", Some(event)), ("tenant", tenant), ("publish", Some(url))];
    let mut route = DeTable::new();
    for (key, value) in keys {
        value.into_iter().for_each(|value| toml_tree::put(&mut route, key, toml_tree::text(value, &span)));
    }
    Spanned::new(span, DeValue::Table(route))
}

/// Splits PATTERN=URL. A URL alone has the pattern `*`. The two can be told apart because only a URL has `://` or `?`
/// before its first `=`.
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
