//! Parts of commands that print lists: full pages, and the line that says how to get the next one.

use posthaste::admin::{Admin, Filter, Page, PageRequest};
use posthaste::{EventRow, StoreError};

/// Characters of a reason in a table; `event show` prints all of it.
pub(in crate::commands) const MAX_REASON_CHARS: usize = 100;

/// Reads one page of the requested length. A store may return it in pieces.
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

/// How many entries are shown, the total if it is known, and where the next page starts.
pub(in crate::commands) fn footer(shown: usize, total: Option<u64>, next: Option<i64>) -> String {
    let of = total.map(|total| format!(" of {total}")).unwrap_or_default();
    match next {
        Some(next) => format!("{shown}{of} shown; next page: the same command with --after {next}"),
        None => format!("{shown}{of} shown"),
    }
}

/// The type of an aggregate and its id, if it has one.
pub(in crate::commands) fn aggregate(aggregate_type: &str, id: Option<&str>) -> String {
    id.map_or_else(|| aggregate_type.to_owned(), |id| format!("{aggregate_type} {id}"))
}
