//! Operators' filters: the indexes to read for a filter, and whether a row matches it.

use posthaste::admin::Filter;
use posthaste::{EventRow, Status, Timestamp};

/// The kinds of rows, each with an index of its own, that can contain matching rows.
pub(crate) fn kinds(filter: &Filter) -> &'static [&'static str] {
    match filter.status {
        Some(Status::New | Status::Retry) => &["waiting"],
        Some(Status::Done) => &["done"],
        Some(Status::Dead) => &["dead"],
        Some(Status::Archived) => &["archived"],
        None => &["waiting", "done", "dead"],
    }
}

/// Whether the filter matches all rows of its kinds, so that the size of the indexes is the count.
pub(crate) fn is_whole_kind(filter: &Filter) -> bool {
    let by_kind = match filter.status {
        Some(Status::New | Status::Retry) => return false,
        Some(status) => Filter::status(status),
        None => Filter::default(),
    };
    *filter == by_kind
}

/// Whether a row matches. `before`: the filter's age limit as a time of the server's clock. By then the row must have
/// ended or, if it is pending, have been inserted.
pub(crate) fn matches(row: &EventRow, filter: &Filter, before: Option<Timestamp>) -> bool {
    fn is_or_any(wanted: Option<&String>, value: Option<&str>) -> bool {
        wanted.is_none_or(|wanted| value == Some(wanted))
    }
    let contains =
        |text: &String| row.last_error.as_deref().is_some_and(|error| error.contains(text.as_str()));
    filter.status.is_none_or(|status| status == row.status)
        && filter.id.as_ref().is_none_or(|id| *id == row.id)
        && is_or_any(filter.event_type.as_ref(), Some(&row.event_type))
        && is_or_any(filter.aggregate_type.as_ref(), Some(&row.aggregate_type))
        && is_or_any(filter.aggregate_id.as_ref(), row.aggregate_id.as_deref())
        && is_or_any(filter.tenant_id.as_ref(), row.tenant_id.as_deref())
        && is_or_any(filter.parked.as_ref(), row.parked.as_deref())
        && filter.error_contains.as_ref().is_none_or(contains)
        && before.is_none_or(|before| row.done_at.unwrap_or(row.inserted_at) <= before)
}
