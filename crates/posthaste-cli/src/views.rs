//! What JSON output shows of the library's types: names that stay, times as RFC 3339 text.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use posthaste::admin::{AuditEntry, Backlog, BacklogGroup, DeadGroup, Estimated, Finding, Severity, Stats};
use posthaste::{Event, EventId, EventRow, Headers, Status, Timestamp};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::json_text;

/// A row, but for its headers and its payload.
#[derive(Debug, Serialize)]
pub(crate) struct RowView<'a> {
    seq: i64,
    id: &'a EventId,
    event_type: &'a str,
    aggregate_type: &'a str,
    aggregate_id: Option<&'a str>,
    tenant_id: Option<&'a str>,
    payload_bytes: u64,
    status: Status,
    attempts: u32,
    deferrals: u32,
    lost_leases: u32,
    replays: u32,
    parked: Option<&'a str>,
    progress: &'a BTreeSet<String>,
    available_at: Time,
    created_at: Time,
    inserted_at: Time,
    done_at: Option<Time>,
    last_error: Option<&'a str>,
    locked_by: Option<&'a str>,
    locked_at: Option<Time>,
    malformed: Option<&'a str>,
}

impl<'a> From<&'a EventRow> for RowView<'a> {
    fn from(row: &'a EventRow) -> Self {
        Self {
            seq: row.seq,
            id: &row.id,
            event_type: &row.event_type,
            aggregate_type: &row.aggregate_type,
            aggregate_id: row.aggregate_id.as_deref(),
            tenant_id: row.tenant_id.as_deref(),
            payload_bytes: row.payload_bytes,
            status: row.status,
            attempts: row.attempts,
            deferrals: row.deferrals,
            lost_leases: row.lost_leases,
            replays: row.replays,
            parked: row.parked.as_deref(),
            progress: &row.progress,
            available_at: Time(row.available_at),
            created_at: Time(row.created_at),
            inserted_at: Time(row.inserted_at),
            done_at: row.done_at.map(Time),
            last_error: row.last_error.as_deref(),
            locked_by: row.locked_by.as_deref(),
            locked_at: row.locked_at.map(Time),
            malformed: row.malformed.as_deref(),
        }
    }
}

/// What only the event knows.
#[derive(Debug, Serialize)]
pub(crate) struct EventView<'a> {
    topic: Option<&'a str>,
    content_type: Option<&'a str>,
    schema_version: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<&'a Headers>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Payload>,
}

impl<'a> EventView<'a> {
    /// For those who may not see what is in an event.
    pub(crate) fn sealed(event: &'a Event) -> Self {
        Self {
            topic: event.topic(),
            content_type: event.content_type(),
            schema_version: event.schema_version(),
            headers: None,
            payload: None,
        }
    }
}

impl<'a> From<&'a Event> for EventView<'a> {
    fn from(event: &'a Event) -> Self {
        Self { headers: Some(event.headers()), payload: Some(Payload::of(event)), ..Self::sealed(event) }
    }
}

/// A payload in the form that shows most of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Payload {
    /// On one line, number by number as it was written.
    Json(Box<RawValue>),
    Text(String),
    Hex(String),
}

impl Payload {
    pub(crate) fn of(event: &Event) -> Self {
        let bytes = event.payload();
        let content_type = event.content_type();
        if content_type.is_none_or(|media| media.contains("json"))
            && let Some(raw) = json_text::document(bytes).map(json_text::compact).and_then(raw)
        {
            return Self::Json(raw);
        }
        match std::str::from_utf8(bytes) {
            Ok(text) if content_type.is_none_or(is_text) => Self::Text(text.to_owned()),
            _ => Self::Hex(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        }
    }
}

fn raw(document: String) -> Option<Box<RawValue>> {
    RawValue::from_string(document).ok()
}

fn is_text(media: &str) -> bool {
    media.starts_with("text/") || media.contains("json") || media.contains("xml")
}

/// DEAD events of one type with one reason.
#[derive(Debug, Serialize)]
pub(crate) struct GroupView<'a> {
    aggregate_type: &'a str,
    event_type: &'a str,
    reason: &'a str,
    count: u64,
    first: Option<Time>,
    last: Option<Time>,
}

impl<'a> From<&'a DeadGroup> for GroupView<'a> {
    fn from(group: &'a DeadGroup) -> Self {
        Self {
            aggregate_type: &group.aggregate_type,
            event_type: &group.event_type,
            reason: &group.reason,
            count: group.count,
            first: group.first.map(Time),
            last: group.last.map(Time),
        }
    }
}

/// The counts of an outbox.
#[derive(Debug, Serialize)]
pub(crate) struct StatsView {
    pub(crate) pending: PendingView,
    pub(crate) done: u64,
    pub(crate) dead: u64,
    pub(crate) archived: u64,
    pub(crate) estimated: Estimated,
    oldest_pending_seconds: Option<f64>,
    pub(crate) paused: BTreeSet<String>,
}

/// The same rows counted twice: by status, and by what they wait for.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct PendingView {
    pub(crate) new: u64,
    pub(crate) retry: u64,
    pub(crate) due: u64,
    pub(crate) leased: u64,
    pub(crate) parked: u64,
    pub(crate) scheduled: u64,
}

impl From<&Stats> for StatsView {
    fn from(stats: &Stats) -> Self {
        let &Stats { new, retry, done, dead, archived, due, leased, parked, scheduled, .. } = stats;
        Self {
            pending: PendingView { new, retry, due, leased, parked, scheduled },
            done,
            dead,
            archived,
            estimated: stats.estimated,
            oldest_pending_seconds: stats.oldest_pending.map(|age| age.as_secs_f64()),
            paused: stats.paused.clone(),
        }
    }
}

/// Pending events in groups.
#[derive(Debug, Serialize)]
pub(crate) struct BacklogView {
    pub(crate) groups: Vec<BacklogGroupView>,
    /// Whether these are all groups, and every pending event was counted.
    pub(crate) complete: bool,
}

/// Pending events of one type or tenant.
#[derive(Debug, Serialize)]
pub(crate) struct BacklogGroupView {
    pub(crate) key: Option<String>,
    pub(crate) count: u64,
    pub(crate) oldest_seconds: Option<f64>,
}

impl From<Backlog> for BacklogView {
    fn from(Backlog { groups, complete }: Backlog) -> Self {
        Self { groups: groups.into_iter().map(BacklogGroupView::from).collect(), complete }
    }
}

impl From<BacklogGroup> for BacklogGroupView {
    fn from(BacklogGroup { key, count, oldest }: BacklogGroup) -> Self {
        Self { key, count, oldest_seconds: oldest.map(|age| age.as_secs_f64()) }
    }
}

/// How bad a finding is, for people.
pub(crate) fn severity(finding: &Finding) -> &'static str {
    match finding.severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Problem => "problem",
    }
}

/// Findings in the order in which one looks after them.
pub(crate) fn worst_first(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_key(|finding| Reverse(finding.severity));
    findings
}

/// One thing an operator did.
#[derive(Debug, Serialize)]
pub(crate) struct AuditView<'a> {
    seq: i64,
    pub(crate) at: Time,
    pub(crate) actor: &'a str,
    pub(crate) action: &'a str,
    pub(crate) target: &'a str,
    pub(crate) rows: u64,
}

impl<'a> From<&'a AuditEntry> for AuditView<'a> {
    fn from(entry: &'a AuditEntry) -> Self {
        Self {
            seq: entry.seq,
            at: Time(entry.at),
            actor: &entry.actor,
            action: &entry.action,
            target: &entry.target,
            rows: entry.rows,
        }
    }
}

/// An instant as RFC 3339 text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time(pub(crate) Timestamp);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(event: &Event) -> String {
        serde_json::to_string(&Payload::of(event)).unwrap()
    }

    #[test]
    fn payload_is_shown_as_what_it_is() {
        let json = Event::builder("A").json_text("{\"b\": 1.50,\n \"a\": 12345678901234567890}").build();
        assert_eq!(shown(&json.unwrap()), r#"{"json":{"b":1.50,"a":12345678901234567890}}"#);
        for (content_type, bytes, expected) in [
            ("application/cloudevents+json", &b"[1]"[..], r#"{"json":[1]}"#),
            ("application/json", b"[1", r#"{"text":"[1"}"#),
            ("text/plain", b"[1]", r#"{"text":"[1]"}"#),
            ("text/plain", b"\xff", r#"{"hex":"ff"}"#),
            ("application/protobuf", b"7\x00", r#"{"hex":"3700"}"#),
        ] {
            let event = Event::bytes("A", content_type, bytes).unwrap();
            assert_eq!(shown(&event), expected, "{content_type}");
        }
    }
}
