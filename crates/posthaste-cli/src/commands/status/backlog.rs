//! The backlog of `posthaste status`: pending events by type and by tenant.

use std::time::Duration;

use posthaste::StoreError;
use posthaste::admin::{Admin, Backlog, BacklogBy};

use crate::output::{self, or_dash};
use posthaste_admin::wire;

/// Groups per table, the largest first.
const MAX_GROUPS: usize = 10;

pub(super) async fn read(admin: &dyn Admin, by: BacklogBy) -> Result<wire::Backlog, StoreError> {
    Ok(wire::Backlog::from(admin.backlog(by, MAX_GROUPS).await?))
}

/// A table, or `None` if no event has a key to group by.
pub(super) fn text(backlog: &wire::Backlog, heading: &str) -> Option<String> {
    backlog.groups.iter().find(|group| group.key.is_some())?;
    let rows = backlog.groups.iter().map(|group| {
        let oldest = group.oldest_seconds.map(|age| output::spoken(Duration::from_secs_f64(age)));
        [or_dash(group.key.clone()), group.count.to_string(), or_dash(oldest)]
    });
    let table = output::columns([heading, "events", "oldest"], rows);
    let more = format!("\n…the largest of the oldest {} events", Backlog::MAX_ROWS);
    Some(if backlog.complete { table } else { table + &more })
}
