//! URLs that print without their secrets.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// The URL of a store or a publisher as it was typed. `Display` and `Debug` leave out the password and the query.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretUrl(String);

impl SecretUrl {
    /// Keeps the URL as it is, without any check.
    pub fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    /// The whole URL, secrets included.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether the scheme is one of Redis or Redis Cluster.
    pub(crate) fn is_redis(&self) -> bool {
        self.0.starts_with("redis")
    }
}

impl FromStr for SecretUrl {
    type Err = Infallible;

    // No check here: clap repeats an invalid value in its message, which would show the password.
    fn from_str(url: &str) -> Result<Self, Infallible> {
        Ok(Self(url.to_owned()))
    }
}

impl fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redact(&self.0))
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", redact(&self.0))
    }
}

/// Returns the URL without user and password, without the query, and without the path of a webhook.
///
/// A password may contain any character, so everything before the last `@` is hidden. If that `@` may be part of the
/// query, only the scheme is shown. A URL of SQLite is returned unchanged.
pub fn redact(url: &str) -> String {
    if url.starts_with("sqlite:") {
        return url.to_owned();
    }
    if is_webhook(url) {
        return redact_webhook(url);
    }
    let (scheme, rest) = match url.split_once(':') {
        Some((scheme, rest)) => (format!("{scheme}:"), rest),
        None => (String::new(), url),
    };
    let shown = match rest.rsplit_once('@') {
        Some((secret, _)) if secret.contains('?') => "//***".to_owned(),
        Some((_, host)) => format!("//***@{}", without_query(host)),
        None => without_query(rest).to_owned(),
    };
    format!("{scheme}{shown}")
}

/// Whether the URL is that of a webhook, to which events are posted: `http` or `https`.
pub fn is_webhook(url: &str) -> bool {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
}

/// Shows scheme, host and port only, because many receivers identify the caller by a secret in the path. An `@` after
/// the host means that what looks like a host is the beginning of a password.
fn redact_webhook(url: &str) -> String {
    let (scheme, rest) = url.split_once(':').unwrap_or_default();
    let rest = rest.trim_start_matches('/');
    let (authority, behind) = rest.split_at(rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len()));
    if behind.contains('@') {
        return format!("{scheme}://***");
    }
    let (user, host) = authority.rsplit_once('@').map_or(("", authority), |(_, host)| ("***@", host));
    let path = if ["", "/"].contains(&behind) { behind } else { "/***" };
    format!("{scheme}://{user}{host}{path}")
}

fn without_query(text: &str) -> &str {
    text.split_once('?').map_or(text, |(before, _)| before)
}

/// Like [`redact`], for a text that may contain URLs among its words.
pub fn redact_words(text: &str) -> String {
    text.split_inclusive(char::is_whitespace)
        .map(|word| match word.contains("://") && !word.contains("sqlite:") {
            true => redact_word(word),
            false => word.to_owned(),
        })
        .collect()
}

/// Keeps the text before and after the URL, such as quotes or the name of an option.
fn redact_word(word: &str) -> String {
    let before = &word[..word.find("://").unwrap_or(0)];
    let (before, rest) = word.split_at(before.trim_end_matches(|c: char| c.is_ascii_alphanumeric()).len());
    let behind = rest.trim_end_matches(|c: char| c.is_whitespace() || c == '\'' || c == '"').len();
    let (url, behind) = rest.split_at(behind);
    format!("{before}{}{behind}", redact(url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_never_shown() {
        for (url, shown) in [
            (
                "postgres://ann:sEcret@db.example:5432/shop?sslmode=require",
                "postgres://***@db.example:5432/shop",
            ),
            ("postgres://ann:sEcret/@#:x@db.example/shop", "postgres://***@db.example/shop"),
            ("postgres:ann:sEcret@db.example/shop", "postgres://***@db.example/shop"),
            ("postgres://db.example/shop?password=sEcret", "postgres://db.example/shop"),
            ("postgres://db.example/shop?password=x@sEcret", "postgres://***"),
            ("postgres://ann:x?sEcret@db.example/shop", "postgres://***"),
            ("ann:sEcret@db.example", "ann://***@db.example"),
            ("sEcret@db.example", "//***@db.example"),
            ("redis://:sEcret@db.example:6379/1", "redis://***@db.example:6379/1"),
            ("redis+cluster://ann:sEcret@a:1,b:2/", "redis+cluster://***@a:1,b:2/"),
            ("redis+cluster://ann:x@a:1,ann:sEcret@b:2/", "redis+cluster://***@b:2/"),
            ("https://hooks.example/sEcret", "https://hooks.example/***"),
            ("https://me:sEcret@hooks.example:8443/sEcret?key=sEcret", "https://***@hooks.example:8443/***"),
            ("HTTP://hooks.example?sEcret", "HTTP://hooks.example/***"),
            ("https:hooks.example#sEcret", "https://hooks.example/***"),
            ("https://hooks.example/x@sEcret", "https://***"),
            ("https://me:sEcret/x@hooks.example/", "https://***"),
            ("http://127.0.0.1:9911", "http://127.0.0.1:9911"),
            ("sqlite:///var/a@b/x.db", "sqlite:///var/a@b/x.db"),
        ] {
            assert_eq!(redact(url), shown);
            let typed: SecretUrl = url.parse().unwrap();
            assert!(!format!("{typed} {typed:?}").contains("sEcret"), "{url}");
        }
    }

    #[test]
    fn passwords_in_prose_are_never_shown() {
        let text = "error: unexpected argument 'postgres://ann:sEc@ret@db.example/shop' found\n\n  for more";
        let shown = redact_words(text);
        assert_eq!(shown, "error: unexpected argument 'postgres://***@db.example/shop' found\n\n  for more");
        let shown = redact_words("found '--x=postgres://db.example/shop?password=sEcret'\n");
        assert_eq!(shown, "found '--x=postgres://db.example/shop'\n");
        let shown = redact_words("found 'Order.*=https://hooks.example/sEcret'\n");
        assert_eq!(shown, "found 'Order.*=https://hooks.example/***'\n");
    }
}
