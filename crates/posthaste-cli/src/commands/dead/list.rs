//! `posthaste dead list`: one page of DEAD events, and a summary by type and reason.

use std::process::ExitCode;

use posthaste::StoreError;
use posthaste::admin::{Admin, Filter, PageRequest};
use serde::Serialize;

use crate::args::{FilterArgs, PageArgs};
use crate::commands::shared::pages::{self, MAX_REASON_CHARS, aggregate};
use crate::connect;
use crate::output::{self, Output, Report, cut, events, moment, or_dash};
use crate::store_args::StoreArgs;
use posthaste_admin::wire::{DeadGroup, Row};

/// Groups in the summary, the largest first.
const MAX_GROUPS: usize = 10;

/// DEAD events, oldest first, page by page, and how many there are of each type and reason
///
/// JSON: {"total": how many match, "events": [row], "next": number for --after or null, "groups": [{"aggregate_type",
/// "event_type", "reason", "count", "first", "last"}]}. "groups" has the ten largest groups of all DEAD events,
/// regardless of the filters.
#[derive(Debug, clap::Args)]
pub(crate) struct DeadListArgs {
    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    page: PageArgs,

    #[command(flatten)]
    store: StoreArgs,
}

pub(super) async fn run(args: DeadListArgs, output: Output) -> anyhow::Result<ExitCode> {
    let (filter, page) = (args.filter.dead(), args.page.request());
    let list =
        connect::with_admin(&args.store.spec()?, async |admin| Ok(read(admin, &filter, page).await?)).await?;
    output.print(&list)?;
    Ok(ExitCode::SUCCESS)
}

async fn read(
    admin: &dyn Admin,
    filter: &Filter,
    request: PageRequest,
) -> Result<DeadListReport, StoreError> {
    let total = admin.count(filter).await?;
    let page = pages::full_page(admin, filter, request).await?;
    let groups = admin.dead_groups(MAX_GROUPS).await?;
    Ok(DeadListReport {
        total,
        events: page.items.iter().map(Row::from).collect(),
        next: page.next,
        groups: groups.iter().map(DeadGroup::from).collect(),
        is_whole: *filter == Filter::dead() && request.after.is_none(),
    })
}

#[derive(Debug, Serialize)]
struct DeadListReport {
    total: u64,
    events: Vec<Row>,
    next: Option<i64>,
    groups: Vec<DeadGroup>,
    /// Whether this is the first page of all DEAD events: only then the summary is printed.
    #[serde(skip)]
    is_whole: bool,
}

impl Report for DeadListReport {
    fn text(&self) -> String {
        if self.events.is_empty() {
            return match self.total {
                0 if self.is_whole => "no DEAD events".to_owned(),
                0 => "no DEAD events match".to_owned(),
                n => format!("{} match, none of them after this number", events(n)),
            };
        }
        let mut parts = Vec::new();
        if self.is_whole {
            parts.push(group_table(&self.groups, self.total));
        }
        parts.push(event_table(&self.events));
        parts.push(pages::footer(self.events.len(), Some(self.total), self.next));
        parts.join("\n\n")
    }
}

fn group_table(groups: &[DeadGroup], total: u64) -> String {
    let rows = groups.iter().map(|group| {
        [
            group.count.to_string(),
            group.event_type.clone(),
            group.aggregate_type.clone(),
            or_dash(group.last.map(|at| moment(at.0))),
            cut(&group.reason, MAX_REASON_CHARS),
        ]
    });
    let table = output::columns(["events", "type", "aggregate", "last died", "reason"], rows);
    // A store may examine only the newest events, and there may be more groups than are shown.
    let counted: u64 = groups.iter().map(|group| group.count).sum();
    if counted < total {
        format!("{table}\n…and {} more, older or in smaller groups", events(total - counted))
    } else {
        table
    }
}

fn event_table(rows: &[Row]) -> String {
    let rows = rows.iter().map(|row| {
        [
            row.id.clone(),
            row.event_type.clone(),
            aggregate(&row.aggregate_type, row.aggregate_id.as_deref()),
            row.attempts.to_string(),
            or_dash(row.done_at.map(|at| moment(at.0))),
            or_dash(row.last_error.as_ref().map(|error| cut(error, MAX_REASON_CHARS))),
        ]
    });
    output::columns(["id", "type", "aggregate", "attempts", "died", "reason"], rows)
}
