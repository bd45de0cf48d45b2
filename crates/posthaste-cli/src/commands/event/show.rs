//! `posthaste event show`: everything that a store knows about one event.

use std::process::ExitCode;

use anyhow::{Context, bail};
use posthaste::admin::Admin;
use posthaste::{Event, EventDetail, EventId, EventRow, Headers};
use serde::Serialize;

use crate::commands::shared::pages::aggregate;
use crate::connect;
use crate::output::{self, Output, Report, or_dash};
use crate::store_args::StoreArgs;
use posthaste_admin::json_text;
use posthaste_admin::terminal_escape;
use posthaste_admin::wire::{self, Payload};

/// Everything that the row of an event contains, with its headers and its payload
///
/// JSON: the columns of the row with times as RFC 3339 text, "topic", "content_type", "schema_version", "headers":
/// {name: value}, and "payload": {"json": value}, {"text": "…"} or {"hex": "…"}.
///
/// Exit code 1 if there is no such event.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The event's id
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

pub(super) async fn run(args: ShowArgs, output: Output) -> anyhow::Result<ExitCode> {
    let id = args.id.into();
    let detail = connect::with_admin(&args.store.spec()?, async |admin| find(admin, &id).await).await?;
    output.print(&EventReport::from(&detail))?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the event with this id. Fails if it does not exist.
pub(crate) async fn find(admin: &dyn Admin, id: &EventId) -> anyhow::Result<EventDetail> {
    let found = admin.get(id).await.context("the event cannot be read")?;
    let Some(detail) = found else {
        bail!(
            "there is no event {id}: check the id, the store and the table; it may also have been \
             purged, or its transaction may have been rolled back"
        );
    };
    Ok(detail)
}

/// One event with its headers and payload.
#[derive(Debug, Serialize)]
pub(crate) struct EventReport<'a> {
    #[serde(flatten)]
    document: wire::Event,
    #[serde(skip)]
    row: &'a EventRow,
    #[serde(skip)]
    event: &'a Event,
}

impl<'a> From<&'a EventDetail> for EventReport<'a> {
    fn from(detail: &'a EventDetail) -> Self {
        let EventDetail { row, event, .. } = detail;
        Self { document: detail.into(), row, event }
    }
}

impl Report for EventReport<'_> {
    fn text(&self) -> String {
        let mut parts = vec![row_text(self.row, self.event)];
        if !self.event.headers().is_empty() {
            parts.push(header_text(self.event.headers()));
        }
        parts.push(payload_text(self.event));
        parts.join("\n\n")
    }
}

/// Empty fields are left out, except those that a reader looks for.
fn row_text(row: &EventRow, event: &Event) -> String {
    let progress: Vec<&str> = row.progress.iter().map(String::as_str).collect();
    let rows = [
        ("id", Some(row.id.to_string())),
        ("type", Some(row.event_type.clone())),
        ("status", Some(row.status.to_string())),
        ("malformed", row.malformed.clone()),
        ("error", Some(or_dash(row.last_error.as_deref()))),
        ("aggregate", Some(aggregate(&row.aggregate_type, row.aggregate_id.as_deref()))),
        ("tenant", row.tenant_id.clone()),
        ("topic", event.topic().map(str::to_owned)),
        ("schema version", event.schema_version().map(|version| version.to_string())),
        ("attempts", Some(row.attempts.to_string())),
        ("deferrals", some_if_any(row.deferrals)),
        ("lost leases", some_if_any(row.lost_leases)),
        ("replays", some_if_any(row.replays)),
        ("parked for", row.parked.clone()),
        ("delivered to", (!progress.is_empty()).then(|| progress.join(", "))),
        ("held by", row.locked_by.clone()),
        ("held since", row.locked_at.map(|at| at.to_string())),
        ("held until", row.lease_until.map(|at| at.to_string())),
        ("happened", Some(row.created_at.to_string())),
        ("inserted", Some(row.inserted_at.to_string())),
        ("due", row.status.is_pending().then(|| row.available_at.to_string())),
        ("done or dead", row.done_at.map(|at| at.to_string())),
        ("seq", Some(row.seq.to_string())),
    ];
    output::pairs(rows.into_iter().filter_map(|(name, value)| Some((name, value?))))
}

fn some_if_any(count: u32) -> Option<String> {
    (count > 0).then(|| count.to_string())
}

fn header_text(headers: &Headers) -> String {
    output::columns(["header", "value"], headers.iter().map(|(name, value)| [name.clone(), value.clone()]))
}

/// Bytes of a binary payload that the text shows.
const MAX_HEX_BYTES: usize = 64;

fn payload_text(event: &Event) -> String {
    let size = event.payload().len();
    let media = event
        .content_type()
        .map_or_else(String::new, |media| format!("{}, ", terminal_escape::one_line(media)));
    match Payload::of(event) {
        Payload::Json(document) => {
            format!(
                "payload (JSON, {size} bytes)\n{}",
                terminal_escape::json(&json_text::pretty(document.get()))
            )
        }
        Payload::Text(text) => format!("payload ({media}text, {size} bytes)\n{}", indented(&text)),
        Payload::Hex(hex) if size <= MAX_HEX_BYTES => {
            format!("payload ({media}binary, {size} bytes, as hex)\n{hex}")
        }
        Payload::Hex(hex) => format!(
            "payload ({media}binary, {size} bytes; the first {MAX_HEX_BYTES} as hex, all of it with --output json)\n{}",
            &hex[..2 * MAX_HEX_BYTES]
        ),
    }
}

/// Indents each line, so that a line of the payload cannot look like a line of the report.
fn indented(text: &str) -> String {
    text.split('\n')
        .map(|line| format!("  {}", terminal_escape::one_line(line)))
        .collect::<Vec<_>>()
        .join("\n")
}
