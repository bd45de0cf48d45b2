//! Files to which relays deliver events, one line each.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tempfile::TempDir;

use super::process::retry_until_ok;

/// A folder of such files.
pub(crate) struct Sink(TempDir);

impl Sink {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    /// The URL of a publisher to the file with this name.
    pub(crate) fn url(&self, name: &str) -> String {
        format!("file://{}?format=envelope", self.path(name).display())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The ids of the events in the file with this name, in their order.
    pub(crate) fn arrived(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
        // The last line may be incomplete.
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let id = |line: &str| {
            let document: serde_json::Value = serde_json::from_str(line).expect("a document per line");
            document["id"].as_str().expect("an id").to_owned()
        };
        lines.map(id).collect()
    }

    /// How often each event is in the file with this name.
    pub(crate) fn ids(&self, name: &str) -> BTreeMap<String, u32> {
        let mut ids = BTreeMap::new();
        for id in self.arrived(name) {
            *ids.entry(id).or_default() += 1;
        }
        ids
    }

    /// Waits until each of these events is in one of the files. Returns how often each event is in all of them.
    pub(crate) fn wait_for(&self, names: &[&str], ids: &[String]) -> BTreeMap<String, u32> {
        retry_until_ok("delivery", || {
            let mut all = BTreeMap::new();
            for (id, count) in names.iter().flat_map(|name| self.ids(name)) {
                *all.entry(id).or_default() += count;
            }
            let missing = ids.iter().filter(|id| !all.contains_key(*id)).count();
            if missing == 0 { Ok(all) } else { Err(format!("{missing} of {} are missing", ids.len())) }
        })
    }

    /// The same, but no event may be duplicated, and there may be no others.
    pub(crate) fn wait_for_each_once(&self, names: &[&str], ids: &[String]) {
        let found = self.wait_for(names, ids);
        let twice: Vec<&String> = found.iter().filter(|(_, count)| **count > 1).map(|(id, _)| id).collect();
        assert!(twice.is_empty(), "{} twice, such as {:?}", twice.len(), twice.first());
        assert_eq!(found.len(), ids.len(), "nothing is invented");
    }
}
