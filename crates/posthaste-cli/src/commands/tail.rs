//! `posthaste tail`: follows the deliveries of a running relay.

use std::process::ExitCode;

use anyhow::{bail, ensure};
use posthaste_admin::wire::{Outboxes, TailLine};
use posthaste_admin::{Client, MAX_DOCUMENT_BYTES, terminal_escape};
use posthaste_stores::redact;

use crate::errors::{UsageError, say};
use crate::output::Output;
use crate::relay_token;

/// Follow a running relay: every delivery as it happens, without payloads
///
/// JSON: one document per line: {"at", "id", "event_type", "aggregate_type", "aggregate_id", "tenant_id", "attempt",
/// "outcome": "done|retry|deferred|dead|unreachable|busy"}, or {"missed": how many lines were lost because this program
/// read too slowly}
///
/// The outcome is the result of one attempt. Whether it was the last attempt is decided by the store: `posthaste dead
/// list` shows dead events.
///
/// Exit code 0 when the relay stops or --count is reached, 1 if the relay cannot be followed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  posthaste tail
  posthaste tail --type OrderPlaced --outcome retry
  posthaste tail --relay https://relay.example:9911 --outbox shop --token-file ~/.posthaste-token")]
pub(crate) struct TailArgs {
    /// The relay's admin listener
    #[arg(long, value_name = "URL", env = "POSTHASTE_RELAY", default_value = "http://127.0.0.1:9911")]
    relay: String,

    /// A file with the token that the relay requires, if it requires one [default: the variable POSTHASTE_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<std::path::PathBuf>,

    /// Which outbox of the relay [default: its only one]
    #[arg(long, value_name = "NAME")]
    outbox: Option<String>,

    /// End after N deliveries
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    #[command(flatten)]
    filter: TailFilter,
}

/// Filters on deliveries; all of them must match.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Filters")]
struct TailFilter {
    /// Only this event type
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,

    /// Only this aggregate type
    #[arg(long, value_name = "TYPE")]
    aggregate_type: Option<String>,

    /// Only this aggregate id
    #[arg(long, value_name = "ID")]
    aggregate_id: Option<String>,

    /// Only this tenant
    #[arg(long, value_name = "ID")]
    tenant: Option<String>,

    /// Only this outcome: done, retry, deferred, dead, unreachable or busy
    #[arg(long, value_parser = ["done", "retry", "deferred", "dead", "unreachable", "busy"])]
    outcome: Option<String>,
}

impl TailFilter {
    fn query(&self) -> Vec<(&'static str, &str)> {
        let pairs = [
            ("type", &self.event_type),
            ("aggregate_type", &self.aggregate_type),
            ("aggregate_id", &self.aggregate_id),
            ("tenant", &self.tenant),
            ("outcome", &self.outcome),
        ];
        pairs.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect()
    }
}

pub(crate) async fn run(args: TailArgs, output: Output) -> anyhow::Result<ExitCode> {
    let relay = Client::new(&args.relay, relay_token::token(args.token_file.as_deref())?)?;
    let outbox = match &args.outbox {
        Some(outbox) => outbox.clone(),
        None => only_outbox(&relay).await?,
    };
    let mut followed = relay.tail(&outbox, &args.filter.query()).await?;
    say(&format!("following {} at {}", terminal_escape::one_line(&outbox), redact(relay.url())));
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut lines = LineBuffer::default();
    while let Some(part) = followed.next().await? {
        for line in lines.add(&part)? {
            print(&line, output)?;
            left = left.saturating_sub(u64::from(!line.starts_with(r#"{"missed""#)));
            if left == 0 {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
    say("the relay stopped");
    Ok(ExitCode::SUCCESS)
}

fn print(line: &str, output: Output) -> anyhow::Result<()> {
    if output == Output::Json {
        return output.print_line(line);
    }
    match serde_json::from_str::<TailLine>(line) {
        Ok(line) => output.print_line(&shown(&line)),
        Err(_) => output.print_line(line),
    }
}

fn shown(line: &TailLine) -> String {
    let aggregate = match &line.aggregate_id {
        Some(id) => format!("{}/{id}", line.aggregate_type),
        None => line.aggregate_type.clone(),
    };
    let tenant = line.tenant_id.as_ref().map(|tenant| format!(" @{tenant}")).unwrap_or_default();
    let attempt = if line.attempt > 1 { format!(" attempt {}", line.attempt) } else { String::new() };
    format!("{} {:<11} {} {aggregate}{tenant} {}{attempt}", line.at.0, line.outcome, line.event_type, line.id)
}

async fn only_outbox(relay: &Client) -> anyhow::Result<String> {
    let found: Outboxes = relay.get(&["outboxes"], &[]).await?;
    let mut names: Vec<String> = found.outboxes.into_iter().map(|named| named.outbox).collect();
    match (names.pop(), names.is_empty()) {
        (Some(only), true) => Ok(only),
        (Some(last), false) => {
            names.push(last);
            Err(UsageError::new(format!(
                "the relay has several outboxes, name one with --outbox: {}",
                names.join(", ")
            ))
            .into())
        }
        (None, _) => bail!("the relay has no outbox"),
    }
}

/// Assembles lines from chunks that may end anywhere.
#[derive(Default)]
struct LineBuffer(Vec<u8>);

impl LineBuffer {
    /// Returns the lines that are complete now. Empty lines are keep-alives and are dropped.
    fn add(&mut self, part: &[u8]) -> anyhow::Result<Vec<String>> {
        self.0.extend_from_slice(part);
        let end = self.0.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let whole: Vec<u8> = self.0.drain(..end).collect();
        ensure!(
            self.0.len() <= MAX_DOCUMENT_BYTES,
            "this is not a Posthaste relay: it sends a line longer than 1 MiB"
        );
        let whole = String::from_utf8_lossy(&whole);
        Ok(whole.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together_from_parts() {
        let mut lines = LineBuffer::default();
        assert_eq!(lines.add(b"\n{\"a\"").unwrap(), [""; 0]);
        assert_eq!(lines.add(b":1}\n\n{\"b\":2}\n{").unwrap(), [r#"{"a":1}"#, r#"{"b":2}"#]);
        assert_eq!(lines.add(b"}\n").unwrap(), ["{}"]);
    }

    #[test]
    fn line_without_end_is_not_kept() {
        let mut lines = LineBuffer::default();
        assert!(lines.add(&vec![b'x'; MAX_DOCUMENT_BYTES]).is_ok());
        let error = lines.add(b"x").unwrap_err();
        assert!(error.to_string().contains("longer than 1 MiB"), "{error}");
    }
}
