//! `posthaste event list`: one page of events of any status.

use std::process::ExitCode;

use anyhow::Context;
use clap::ValueEnum;
use posthaste::admin::{Filter, Page};
use posthaste::{EventRow, Status};
use serde::Serialize;

use crate::args::{FilterArgs, PageArgs};
use crate::commands::listing::{self, MAX_REASON_CHARS, aggregate};
use crate::connect;
use crate::output::{self, Output, Report, cut, moment, or_dash};
use crate::store_args::StoreArgs;
use posthaste_admin::wire::Row;

/// Events of any status, oldest first, page by page
///
/// JSON: {"events": [row], "next": number for --after or null}. They are not counted, because all
/// events may be many: `posthaste status` has the counts.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  posthaste event list --status retry --error timeout
  posthaste event list --parked mail
  posthaste event list --status done --tenant acme --limit 100 --output json")]
pub(crate) struct EventListArgs {
    /// Only this status [default: all but archived]
    #[arg(long, value_enum, value_name = "STATUS", help_heading = FilterArgs::HEADING)]
    status: Option<StatusName>,

    /// Only events that wait for this route
    #[arg(long, value_name = "ROUTE", help_heading = FilterArgs::HEADING)]
    parked: Option<String>,

    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    page: PageArgs,

    #[command(flatten)]
    store: StoreArgs,
}

/// A status as it is typed.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum StatusName {
    New,
    Retry,
    Done,
    Dead,
    Archived,
}

impl From<StatusName> for Status {
    fn from(name: StatusName) -> Self {
        match name {
            StatusName::New => Self::New,
            StatusName::Retry => Self::Retry,
            StatusName::Done => Self::Done,
            StatusName::Dead => Self::Dead,
            StatusName::Archived => Self::Archived,
        }
    }
}

pub(super) async fn run(args: EventListArgs, output: Output) -> anyhow::Result<ExitCode> {
    let (filter, request) = (args.filter(), args.page.request());
    let page = connect::with_admin(&args.store.spec()?, async |admin| {
        listing::full_page(admin, &filter, request).await.context("the events cannot be listed")
    })
    .await?;
    output.print(&EventListReport::from(&page))?;
    Ok(ExitCode::SUCCESS)
}

impl EventListArgs {
    fn filter(&self) -> Filter {
        let mut filter = self.filter.with(self.status.map(Status::from));
        filter.parked.clone_from(&self.parked);
        filter
    }
}

#[derive(Debug, Serialize)]
struct EventListReport<'a> {
    events: Vec<Row>,
    next: Option<i64>,
    #[serde(skip)]
    rows: &'a [EventRow],
}

impl<'a> From<&'a Page<EventRow>> for EventListReport<'a> {
    fn from(page: &'a Page<EventRow>) -> Self {
        let events = page.items.iter().map(Row::from).collect();
        Self { events, next: page.next, rows: &page.items }
    }
}

impl Report for EventListReport<'_> {
    fn text(&self) -> String {
        if self.rows.is_empty() {
            return "no events match".to_owned();
        }
        let rows = self.rows.iter().map(|row| {
            [
                row.id.to_string(),
                row.event_type.clone(),
                aggregate(row),
                row.status.to_string(),
                row.attempts.to_string(),
                moment(row.inserted_at),
                or_dash(row.last_error.as_ref().map(|error| cut(error, MAX_REASON_CHARS))),
            ]
        });
        let table =
            output::columns(["id", "type", "aggregate", "status", "attempts", "inserted", "reason"], rows);
        format!("{table}\n\n{}", listing::footer(self.rows.len(), None, self.next))
    }
}
