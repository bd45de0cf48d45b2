//! `posthaste tail`: what a running relay delivers, as it happens.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use axum::body::Bytes;
use serde::Deserialize;

use crate::failure::{Usage, say};
use crate::output::Output;
use crate::redact::TypedUrl;
use crate::relay::tail::TailLine;
use crate::secret::Secret;

/// Whoever has not taken a connection by then does not listen.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A relay sends an empty line every 15 s: three that are missing are no accident.
const READ_TIMEOUT: Duration = Duration::from_secs(45);

/// No relay sends a longer line, or a longer answer to anything but a tail.
const LONGEST: usize = 1024 * 1024;

/// Follow a running relay: every delivery as it happens, without payloads
///
/// JSON: one document per line: {"at", "id", "event_type", "aggregate_type", "aggregate_id", "tenant_id",
/// "attempt", "outcome": "done|retry|deferred|dead|unreachable"}, or {"missed": how many lines were lost
/// because this end was too slow}
///
/// It tells what the destination answered. Whether a failed attempt was the last one, the store decides:
/// `posthaste dead list` shows what died.
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

    /// The file with the token that the relay asks for, if it asks [default: the variable POSTHASTE_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<std::path::PathBuf>,

    /// Which outbox of the relay [default: its only one]
    #[arg(long, value_name = "NAME")]
    outbox: Option<String>,

    /// End after so many deliveries
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    #[command(flatten)]
    wanted: Wanted,
}

/// Which deliveries; every condition counts.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Filters")]
struct Wanted {
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

    /// Only this outcome: done, retry, deferred, dead or unreachable
    #[arg(long, value_parser = ["done", "retry", "deferred", "dead", "unreachable"])]
    outcome: Option<String>,
}

impl Wanted {
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
    let relay = Relay::new(&args)?;
    let outbox = match &args.outbox {
        Some(outbox) => outbox.clone(),
        None => relay.only_outbox().await?,
    };
    let mut followed = relay.get(&["outboxes", &outbox, "tail"], &args.wanted.query()).await?;
    say(&format!("following {} at {}", crate::escape::one_line(&outbox), TypedUrl::new(relay.url.as_str())));
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut lines = Lines::default();
    while let Some(part) = next_part(&mut followed).await? {
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

async fn next_part(answer: &mut reqwest::Response) -> anyhow::Result<Option<Bytes>> {
    answer.chunk().await.map_err(reqwest::Error::without_url).context("the relay is gone")
}

/// All of an answer that is no tail.
async fn whole(mut answer: reqwest::Response) -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(part) = next_part(&mut answer).await? {
        body.extend_from_slice(&part);
        ensure!(body.len() <= LONGEST, "this is no relay of Posthaste: its answer is longer than 1 MiB");
    }
    Ok(body)
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
    format!("{} {:<11} {} {aggregate}{tenant} {}{attempt}", line.at, line.outcome, line.event_type, line.id)
}

/// A relay's API.
struct Relay {
    client: reqwest::Client,
    url: reqwest::Url,
    token: Option<Secret>,
}

#[derive(Deserialize)]
struct Outboxes {
    outboxes: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    outbox: String,
}

/// What the API says when it refuses.
#[derive(Deserialize)]
struct Refused {
    error: String,
    advice: String,
}

impl Relay {
    fn new(args: &TailArgs) -> Result<Self, Usage> {
        let wrong = || {
            Usage::new("--relay must be the URL of a relay's admin listener, such as http://127.0.0.1:9911")
        };
        let url: reqwest::Url = args.relay.parse().map_err(|_| wrong())?;
        if !["http", "https"].contains(&url.scheme()) {
            return Err(wrong());
        }
        // Somebody else may have chosen one already: then it is theirs.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client =
            reqwest::Client::builder().no_proxy().connect_timeout(CONNECT_TIMEOUT).read_timeout(READ_TIMEOUT);
        let client =
            client.build().map_err(|error| Usage::new(format!("no HTTP client can be made: {error}")))?;
        Ok(Self { client, url, token: token(args)? })
    }

    async fn only_outbox(&self) -> anyhow::Result<String> {
        let answer = whole(self.get(&["outboxes"], &[]).await?).await?;
        let answer: Outboxes = serde_json::from_slice(&answer).context("this is no relay of Posthaste")?;
        let mut names: Vec<String> = answer.outboxes.into_iter().map(|named| named.outbox).collect();
        match (names.pop(), names.is_empty()) {
            (Some(only), true) => Ok(only),
            (Some(last), false) => {
                names.push(last);
                Err(Usage::new(format!(
                    "the relay has several outboxes, name one with --outbox: {}",
                    names.join(", ")
                ))
                .into())
            }
            (None, _) => bail!("the relay has no outbox"),
        }
    }

    async fn get(&self, path: &[&str], query: &[(&str, &str)]) -> anyhow::Result<reqwest::Response> {
        let mut url = self.url.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(["api", "v1"]).extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let request = self.client.get(url);
        let request = match &self.token {
            Some(token) => request.bearer_auth(token.secret()),
            None => request,
        };
        let answer = request.send().await.map_err(reqwest::Error::without_url);
        let answer = answer.context("the relay cannot be reached: see that it runs, and where it listens")?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status();
        match whole(answer).await.ok().and_then(|body| serde_json::from_slice::<Refused>(&body).ok()) {
            Some(Refused { error, advice }) => bail!("the relay refuses: {error}: {advice}"),
            None => bail!("this is no relay of Posthaste: it answers {status}"),
        }
    }
}

fn token(args: &TailArgs) -> Result<Option<Secret>, Usage> {
    let Some(file) = &args.token_file else {
        return Ok(std::env::var("POSTHASTE_TOKEN").ok().map(Secret::new));
    };
    let text = std::fs::read_to_string(file)
        .map_err(|error| Usage::new(format!("--token-file {} cannot be read: {error}", file.display())))?;
    Ok(Some(Secret::new(text.trim())))
}

/// Puts lines together from parts that end anywhere.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    /// The lines that are whole now; empty ones only say that the relay is there.
    fn add(&mut self, part: &[u8]) -> anyhow::Result<Vec<String>> {
        self.0.extend_from_slice(part);
        let end = self.0.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let whole: Vec<u8> = self.0.drain(..end).collect();
        ensure!(self.0.len() <= LONGEST, "this is no relay of Posthaste: it sends a line longer than 1 MiB");
        let whole = String::from_utf8_lossy(&whole);
        Ok(whole.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together_from_parts() {
        let mut lines = Lines::default();
        assert_eq!(lines.add(b"\n{\"a\"").unwrap(), [""; 0]);
        assert_eq!(lines.add(b":1}\n\n{\"b\":2}\n{").unwrap(), [r#"{"a":1}"#, r#"{"b":2}"#]);
        assert_eq!(lines.add(b"}\n").unwrap(), ["{}"]);
    }

    #[test]
    fn line_without_end_is_not_kept() {
        let mut lines = Lines::default();
        assert!(lines.add(&vec![b'x'; LONGEST]).is_ok());
        let error = lines.add(b"x").unwrap_err();
        assert!(error.to_string().contains("longer than 1 MiB"), "{error}");
    }
}
