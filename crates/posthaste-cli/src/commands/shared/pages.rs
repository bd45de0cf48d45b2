//! What lists of events and of other things have in common: whole pages, and how to get the next.

use posthaste::admin::{Admin, Filter, Page, PageRequest};
use posthaste::{EventRow, StoreError};

/// Characters of a reason in a table; `event show` has all of it.
pub(in crate::commands) const MAX_REASON_CHARS: usize = 100;

/// One page as long as was asked for: a store may hand it out in pieces.
pub(in crate::commands) async fn full_page(
    admin: &dyn Admin,
    filter: &Filter,
    mut request: PageRequest,
) -> Result<Page<EventRow>, StoreError> {
    let mut items = Vec::new();
    loop {
        let piece = admin.list(filter, &request).await?;
        request.limit -= piece.items.len().min(request.limit);
        items.extend(piece.items);
        if request.limit == 0 || piece.next.is_none() {
            return Ok(Page::new(items, piece.next));
        }
        request.after = piece.next;
    }
}

/// How many are shown, of how many if that is known, and where the next page begins.
pub(in crate::commands) fn footer(shown: usize, total: Option<u64>, next: Option<i64>) -> String {
    let of = total.map(|total| format!(" of {total}")).unwrap_or_default();
    match next {
        Some(next) => format!("{shown}{of} shown; next page: the same command with --after {next}"),
        None => format!("{shown}{of} shown"),
    }
}

/// The aggregate's type and, if it has one, its id.
pub(in crate::commands) fn aggregate(aggregate_type: &str, id: Option<&str>) -> String {
    id.map_or_else(|| aggregate_type.to_owned(), |id| format!("{aggregate_type} {id}"))
}
