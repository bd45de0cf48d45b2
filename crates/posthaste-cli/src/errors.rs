//! How the program says that something went wrong, and with which exit code.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use posthaste::StoreError;
use posthaste_sqlx::OpenError;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::postgres::PgDatabaseError;

use posthaste_admin::ClientError;
use posthaste_admin::terminal_escape;
use posthaste_relay::config::Problems;
use posthaste_stores::{InvalidStore, OpenStoreError, redact_words};

/// The exit code of wrong usage; clap has the same.
const USAGE_EXIT_CODE: u8 = 2;

/// The command was typed wrongly: no store was asked, nothing was changed.
#[derive(Debug)]
pub(crate) struct UsageError(String);

impl UsageError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Prints what clap has to say: the help, the version, or what is wrong with the arguments.
pub(crate) fn answer(answer: &clap::Error) -> ExitCode {
    if !answer.use_stderr() {
        // Who closed stdout did not want the help.
        let _ = answer.print();
        return ExitCode::SUCCESS;
    }
    let help = answer.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    let text = answer.render();
    let text = if io::stderr().is_terminal() { text.ansi().to_string() } else { text.to_string() };
    // It repeats what was typed, which may be a URL that stands in the wrong place.
    let text = if help { text } else { redact_words(&text) };
    let _ = io::stderr().write_all(text.as_bytes());
    ExitCode::from(USAGE_EXIT_CODE)
}

/// Prints an error with its causes, and what to do next.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if error.is::<crate::output::StdoutClosed>() {
        return ExitCode::SUCCESS;
    }
    show(error);
    if is_usage(error) { ExitCode::from(USAGE_EXIT_CODE) } else { ExitCode::FAILURE }
}

/// Whether what was typed, or written into a configuration, is wrong.
fn is_usage(error: &anyhow::Error) -> bool {
    let is_invalid_store = error.is::<InvalidStore>()
        || matches!(error.downcast_ref::<OpenStoreError>(), Some(OpenStoreError::Invalid(_)));
    let is_invalid_url = matches!(error.downcast_ref::<ClientError>(), Some(ClientError::InvalidUrl));
    error.is::<UsageError>() || error.is::<Problems>() || is_invalid_store || is_invalid_url
}

/// Tells a person what went wrong.
pub(crate) fn show(error: &anyhow::Error) {
    say(&describe(error));
}

/// Tells a person something on stderr; standard output belongs to the answer.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{}", terminal_escape::lines(text));
}

fn describe(error: &anyhow::Error) -> String {
    let mut text = format!("error: {}", causes(error).join("\n  because: "));
    if let Some(advice) = advice(error) {
        text.push_str("\n  what to do: ");
        text.push_str(advice);
    }
    text
}

/// The same in a line, for a place that has no room for more.
pub(crate) fn in_a_line(error: &anyhow::Error) -> String {
    let advice = advice(error).map(|advice| format!("; {advice}")).unwrap_or_default();
    causes(error).join(": ") + &advice
}

/// The error, then each cause that it does not name itself: many errors repeat their source in their own text.
fn causes(error: &anyhow::Error) -> Vec<String> {
    let mut causes: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        if causes.last().is_none_or(|before| !before.ends_with(&cause)) {
            causes.push(cause);
        }
    }
    causes
}

/// What the error's own text does not say.
pub(crate) fn advice(error: &anyhow::Error) -> Option<&'static str> {
    const FILE_ADVICE: &str = "see that the path leads to a database file which this user may read and write";
    const SERVER_ADVICE: &str =
        "see that the URL fits the server, sslmode or ssl-mode for example, and look into the server's log";
    const RETRY_ADVICE: &str = "see that the database is well and not busy, then run the command again";
    // Other errors of opening name their way out themselves.
    if let Some(opening) = error.chain().find_map(|cause| cause.downcast_ref::<OpenError>()) {
        let OpenError::Database(error) = opening else { return None };
        let of_server = matches!(error, sqlx::Error::Tls(_)) || is_of_server(error);
        return Some(if of_server { SERVER_ADVICE } else { FILE_ADVICE });
    }
    let store = error.chain().find_map(|cause| cause.downcast_ref::<StoreError>())?;
    matches!(store, StoreError::Backend { .. }).then_some(RETRY_ADVICE)
}

fn is_of_server(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| {
        error.try_downcast_ref::<PgDatabaseError>().is_some()
            || error.try_downcast_ref::<MySqlDatabaseError>().is_some()
    })
}
