//! Reads `[admin]` and `[log]`.

use std::net::SocketAddr;

use posthaste_admin::{Role, Token};
use tracing_subscriber::EnvFilter;

use super::known_keys::Keys;
use super::known_keys::Sensitivity::{Hidden, Public};
use super::problem::suggestion;
use super::section::Section;
use super::{AdminConfig, LogConfig, LogFormat};

pub(super) const ADMIN: Keys = &[(Public, &["listen", "ready_lag"]), (Hidden, &["tokens"])];
pub(super) const TOKEN: Keys = &[(Hidden, &["role", "token"])];
pub(super) const LOG: Keys = &[(Public, &["format", "level"])];

/// Shorter tokens could be guessed.
const MIN_TOKEN_CHARS: usize = 16;

pub(super) fn admin(section: Section<'_, '_>) -> AdminConfig {
    let section = section.only(ADMIN);
    let usual = AdminConfig::default();
    let listen = section.parse("listen", |text| listen(&text)).unwrap_or(usual.listen);
    let ready_lag = section.duration("ready_lag").unwrap_or(usual.ready_lag);
    let tokens = section.section("tokens").map(|tokens| self::tokens(&tokens)).unwrap_or_default();
    let is_open = listen.is_some_and(|address| !address.ip().is_loopback());
    if is_open && tokens.is_empty() && !section.concerns("tokens") {
        section.wrong(
            "listen",
            "other hosts can reach this address, and there is no token: add [admin.tokens.NAME] with role and \
             token, or listen on 127.0.0.1",
        );
    }
    AdminConfig { listen, ready_lag, tokens }
}

/// `None` if the listener is off.
fn listen(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "off" {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        "must be an IP address with a port, such as \"127.0.0.1:9911\" or \"[::1]:9911\", or \"off\""
            .to_owned()
    })
}

fn tokens(section: &Section<'_, '_>) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    for (name, node) in section.table {
        let name = name.get_ref();
        let Some(holder) = section.within(name, node) else {
            // The name is not shown either: it may be the token.
            let what =
                "contains something that is not a table: write [admin.tokens.NAME] with role and token";
            section.add(&node.span(), "", what);
            continue;
        };
        let Some(token) = token(holder.clone(), name) else { continue };
        if let Some(other) = tokens.iter().find(|other| other.secret == token.secret) {
            let what = format!("is the token of {} too: give each its own", other.name);
            holder.add(&holder.span, "token", what);
        }
        tokens.push(token);
    }
    tokens
}

fn token(section: Section<'_, '_>, name: &str) -> Option<Token> {
    let section = section.only(TOKEN);
    let role = section.word("role", &[("viewer", Role::Viewer), ("operator", Role::Operator)]);
    if role.is_none() {
        section.missing("role", "is missing: write viewer or operator");
    }
    let Some(token) = section.text("token") else {
        section.missing("token", "is missing: write token = \"${file:/path/to/it}\"");
        return None;
    };
    if token.chars().count() < MIN_TOKEN_CHARS {
        let what = format!(
            "is shorter than {MIN_TOKEN_CHARS} characters: take a long random one, as of `openssl rand -hex 24`"
        );
        section.wrong("token", what);
    }
    if !token.chars().all(|c| c.is_ascii_graphic()) {
        section.wrong("token", "must be ASCII letters, digits and punctuation without spaces");
    }
    if name.is_empty() || name.chars().count() > 64 || name.chars().any(char::is_control) {
        section.wrong("", "a token's name must be 1 to 64 characters without control characters");
    }
    Some(Token::new(name, role?, token))
}

const LOG_LEVELS: &[&str] = &["off", "error", "warn", "info", "debug", "trace"];

pub(super) fn log(section: Section<'_, '_>) -> LogConfig {
    let section = section.only(LOG);
    let usual = LogConfig::default();
    let format = section.word("format", &[("text", LogFormat::Text), ("json", LogFormat::Json)]);
    let level = section.parse("level", |level| what_is_wrong_with_level(&level).map_or(Ok(level), Err));
    LogConfig { format: format.unwrap_or(usual.format), level: level.unwrap_or(usual.level) }
}

/// Returns the problem of a log level or of directives; `None` if they are valid.
///
/// A single word must be a level: `tracing` would take a misspelt level for the name of a module, and log nothing.
pub fn what_is_wrong_with_level(level: &str) -> Option<String> {
    let is_word = level.chars().all(|c| c.is_ascii_alphanumeric());
    if is_word && !LOG_LEVELS.contains(&level.to_lowercase().as_str()) {
        return Some(format!("no such level: {}", suggestion(level, LOG_LEVELS)));
    }
    let readable = EnvFilter::try_new(level).is_ok();
    (!readable)
        .then(|| "is not valid: write a level, or directives as in \"info,posthaste=debug\"".to_owned())
}
