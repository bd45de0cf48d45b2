//! The selected entry of a list that changes while the user reads it.

/// Remembers the selected entry and not only its index. Otherwise a reordered list could put another group under the
/// cursor just before the user replays it.
#[derive(Clone, Debug)]
pub(super) struct Cursor<K> {
    at: usize,
    key: Option<K>,
}

impl<K> Default for Cursor<K> {
    fn default() -> Self {
        Self { at: 0, key: None }
    }
}

impl<K: PartialEq + Clone> Cursor<K> {
    /// Index of the selected entry.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Takes the new list. The cursor moves with its entry; if the entry is gone, the index stays.
    pub(super) fn follow(&mut self, keys: &[K]) {
        let found = keys.iter().position(|key| Some(key) == self.key.as_ref());
        self.choose(keys, found.unwrap_or(self.at));
    }

    /// Moves down, or up if `by` is negative.
    pub(super) fn step(&mut self, keys: &[K], by: isize) {
        self.follow(keys);
        self.choose(keys, self.at.saturating_add_signed(by));
    }

    fn choose(&mut self, keys: &[K], at: usize) {
        self.at = at.min(keys.len().saturating_sub(1));
        self.key = keys.get(self.at).cloned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_moves_with_its_entry() {
        let mut cursor = Cursor::default();
        cursor.step(&["a", "b", "c"], 1);
        cursor.follow(&["b", "c", "a"]);
        assert_eq!(cursor.at(), 0, "b is first now");
        cursor.follow(&["x", "c", "a", "b"]);
        assert_eq!(cursor.at(), 3);
    }

    #[test]
    fn cursor_whose_entry_is_gone_stays_within_the_list() {
        let mut cursor = Cursor::default();
        cursor.step(&["a", "b", "c"], 99);
        assert_eq!(cursor.at(), 2);
        cursor.follow(&["a", "b"]);
        assert_eq!(cursor.at(), 1);
        cursor.follow(&[]);
        assert_eq!(cursor.at(), 0);
        cursor.step(&["a"], -1);
        assert_eq!(cursor.at(), 0);
    }
}
