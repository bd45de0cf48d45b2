//! Error output: the text of an error, what to do next, and the exit code.

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

/// The exit code of wrong usage, the same as clap's.
const USAGE_EXIT_CODE: u8 = 2;

/// Wrong usage: the command did not contact a store and changed nothing.
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

/// Prints a message from clap: the help, the version, or an error in the arguments.
pub(crate) fn print_clap(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // If stdout is closed, the help was not wanted.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    let text = error.render();
    let text = if io::stderr().is_terminal() { text.ansi().to_string() } else { text.to_string() };
    // The text repeats the arguments, and a URL with a password may be among them.
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

/// Whether the cause is wrong usage or a mistake in a configuration.
fn is_usage(error: &anyhow::Error) -> bool {
    let is_invalid_store = error.is::<InvalidStore>()
        || matches!(error.downcast_ref::<OpenStoreError>(), Some(OpenStoreError::Invalid(_)));
    let is_invalid_url = matches!(error.downcast_ref::<ClientError>(), Some(ClientError::InvalidUrl));
    error.is::<UsageError>() || error.is::<Problems>() || is_invalid_store || is_invalid_url
}

/// Prints an error to stderr.
pub(crate) fn show(error: &anyhow::Error) {
    say(&describe(error));
}

/// Prints a text to stderr. Stdout is only for the result of the command.
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

/// The error in one line.
pub(crate) fn in_a_line(error: &anyhow::Error) -> String {
    let advice = advice(error).map(|advice| format!("; {advice}")).unwrap_or_default();
    causes(error).join(": ") + &advice
}

/// The error and its causes. Many errors repeat their source in their own text, so a cause is left out if the text
/// before it already ends with that cause.
fn causes(error: &anyhow::Error) -> Vec<String> {
    let mut causes: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        if causes.last().is_none_or(|before| !before.ends_with(&cause)) {
            causes.push(cause);
        }
    }
    causes
}

/// Advice, for errors whose own text has none.
pub(crate) fn advice(error: &anyhow::Error) -> Option<&'static str> {
    const FILE_ADVICE: &str =
        "check that the path leads to a database file that this user may read and write";
    const SERVER_ADVICE: &str =
        "check that the URL fits the server, for example sslmode or ssl-mode, and look into the server's log";
    const RETRY_ADVICE: &str =
        "check that the database is healthy and not overloaded, then run the command again";
    // The other errors of opening say themselves what to do.
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
