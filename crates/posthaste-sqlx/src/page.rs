//! Keyset pagination.

use posthaste::admin::Page;

/// Makes a page of a list that was read with one entry more than the limit. The extra entry only shows that there is
/// another page.
pub(crate) fn cut_page<T>(mut items: Vec<T>, limit: usize, key: impl Fn(&T) -> i64) -> Page<T> {
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().map(key).filter(|_| more);
    Page::new(items, next)
}
