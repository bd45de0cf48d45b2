//! Reads `[admin]` and `[log]`.

use std::net::SocketAddr;

use posthaste_admin::{Role, Secret, Token};
use toml::de::DeValue;
use tracing_subscriber::EnvFilter;

use super::problem::suggestion;
use super::section::Section;
use super::source_text::Span;
use super::{AdminConfig, LogConfig, LogFormat};

/// A token that can be guessed protects nothing.
const MIN_TOKEN_CHARS: usize = 16;

pub(super) fn admin(mut section: Section<'_, '_>) -> AdminConfig {
    let usual = AdminConfig::default();
    let place = section.place("listen");
    let listen = listen(&mut section);
    let ready_lag = section.duration("ready_lag").map_or(usual.ready_lag, |(lag, _)| lag);
    let tokens = match section.table("tokens") {
        Some((table, span)) => tokens(Section::new(section.problems, section.setting("tokens"), span, table)),
        None => Vec::new(),
    };
    let is_open = listen.flatten().is_some_and(|address| !address.ip().is_loopback());
    if is_open && tokens.is_empty() && !section.problems.concerns("admin.tokens") {
        section.wrong(
            "listen",
            &place,
            "other hosts can reach this address, and there is no token: add [admin.tokens.NAME] with role and \
             token, or listen on 127.0.0.1",
        );
    }
    section.finish();
    AdminConfig { listen: listen.unwrap_or(usual.listen), ready_lag, tokens }
}

/// None where nothing is said; none within where it is off.
fn listen(section: &mut Section<'_, '_>) -> Option<Option<SocketAddr>> {
    let (text, span) = section.text("listen")?;
    if text == "off" {
        return Some(None);
    }
    match text.parse() {
        Ok(address) => Some(Some(address)),
        Err(_) => {
            let what =
                "must be an IP address with a port, such as \"127.0.0.1:9911\" or \"[::1]:9911\", or \"off\"";
            section.wrong("listen", &span, what);
            None
        }
    }
}

fn tokens(section: Section<'_, '_>) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let (problems, path) = (section.problems, section.path.clone());
    for (name, node) in section.rest() {
        let span = node.span();
        let DeValue::Table(table) = node.into_inner() else {
            // Neither its name: it may be the token.
            let what = "holds something that is no table: write [admin.tokens.NAME] with role and token";
            problems.add(&span, &path, what);
            continue;
        };
        let path = format!("{path}.{}", name.get_ref());
        let token = token(Section::new(problems, path.clone(), span.clone(), table), name.get_ref());
        let Some(token) = token else { continue };
        if let Some(other) = tokens.iter().find(|other| other.secret == token.secret) {
            let what = format!("is the token of {} too: give each its own", other.name);
            problems.add(&span, &format!("{path}.token"), what);
        }
        tokens.push(token);
    }
    tokens
}

fn token(mut section: Section<'_, '_>, name: &str) -> Option<Token> {
    let role = section.word("role", &[("viewer", Role::Viewer), ("operator", Role::Operator)]);
    let token = section.text("token");
    let header = section.span.clone();
    let (problems, path) = (section.problems, section.path.clone());
    let setting = |key: &str| format!("{path}.{key}");
    section.finish();
    if role.is_none() {
        problems.missing(&header, &setting("role"), "is missing: write viewer or operator");
    }
    let Some((token, span)) = token else {
        problems.missing(&header, &setting("token"), "is missing: write token = \"${file:/path/to/it}\"");
        return None;
    };
    if token.chars().count() < MIN_TOKEN_CHARS {
        let what = format!(
            "is shorter than {MIN_TOKEN_CHARS} characters: take a long random one, as of `openssl rand -hex 24`"
        );
        problems.add(&span, &setting("token"), what);
    }
    if !token.chars().all(|c| c.is_ascii_graphic()) {
        problems.add(&span, &setting("token"), "must be ASCII letters, digits and signs without spaces");
    }
    check_name(name, &header, &path, problems);
    Some(Token { name: name.to_owned(), role: role?, secret: Secret::new(token) })
}

fn check_name(
    name: &str,
    span: &Span,
    path: &str,
    problems: &super::problem_collector::ProblemCollector<'_>,
) {
    let wrong = name.is_empty() || name.chars().count() > 64 || name.chars().any(char::is_control);
    if wrong {
        problems.add(span, path, "a token's name must be 1 to 64 characters without control characters");
    }
}

const LOG_LEVELS: &[&str] = &["off", "error", "warn", "info", "debug", "trace"];

pub(super) fn log(mut section: Section<'_, '_>) -> LogConfig {
    let usual = LogConfig::default();
    let format = section.word("format", &[("text", LogFormat::Text), ("json", LogFormat::Json)]);
    let level = section.text("level");
    if let Some((level, span)) = &level
        && let Some(what) = what_is_wrong_with_level(level)
    {
        section.wrong("level", span, what);
    }
    section.finish();
    LogConfig { format: format.unwrap_or(usual.format), level: level.map_or(usual.level, |(level, _)| level) }
}

/// One word would otherwise pass for the name of a module.
pub fn what_is_wrong_with_level(level: &str) -> Option<String> {
    let is_word = level.chars().all(|c| c.is_ascii_alphanumeric());
    if is_word && !LOG_LEVELS.contains(&level.to_lowercase().as_str()) {
        return Some(format!("no such level: {}", suggestion(level, LOG_LEVELS)));
    }
    let readable = EnvFilter::try_new(level).is_ok();
    (!readable).then(|| "cannot be read: write a level, or as in \"info,posthaste=debug\"".to_owned())
}
