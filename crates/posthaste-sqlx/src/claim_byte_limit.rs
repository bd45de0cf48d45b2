//! The byte limit of a claim: how many of the rows that were found are taken.

/// Returns how many of the first rows fit into `max_bytes` together. The first row always counts: a row that is larger
/// than the limit would otherwise wait for ever.
pub(crate) fn rows_within_limit(sizes: impl IntoIterator<Item = i64>, max_bytes: usize) -> usize {
    let mut room = i64::try_from(max_bytes).unwrap_or(i64::MAX);
    let fits = |size: &i64| {
        room = room.saturating_sub(*size);
        room >= 0
    };
    let mut sizes = sizes.into_iter().peekable();
    let least = usize::from(sizes.peek().is_some());
    sizes.take_while(fits).count().max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_what_fits_and_always_the_first() {
        assert_eq!(rows_within_limit([3, 3, 3], 7), 2);
        assert_eq!(rows_within_limit([3, 9, 1], 7), 1, "nothing behind a row that does not fit is taken");
        assert_eq!(rows_within_limit([9, 1], 7), 1);
        assert_eq!(rows_within_limit([3, 4], 7), 2);
        assert_eq!(rows_within_limit([], 7), 0);
        assert_eq!(rows_within_limit([i64::MAX, i64::MAX], usize::MAX), 1);
    }
}
