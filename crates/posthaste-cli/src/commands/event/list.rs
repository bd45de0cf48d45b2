//! `posthaste event list`: one page of events of any status.

use std::process::ExitCode;

use anyhow::Context;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use posthaste::Status;
use posthaste::admin::Filter;
use serde::Serialize;

use crate::args::{FilterArgs, PageArgs};
use crate::commands::shared::pages::{self, MAX_REASON_CHARS, aggregate};
use crate::connect;
use crate::output::{self, Output, Report, cut, moment, or_dash};
use crate::store_args::StoreArgs;
use posthaste_admin::wire::Row;

/// Events of any status, oldest first, page by page
///
/// JSON: {"events": [row], "next": number for --after or null}. Events are not counted, because there may be many:
/// `posthaste status` has the counts.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  posthaste event list --status retry --error timeout
  posthaste event list --parked mail
  posthaste event list --status done --tenant acme --limit 100 --output json")]
pub(crate) struct EventListArgs {
    /// Only events with this status [default: all but archived]
    #[arg(long, value_name = "STATUS", help_heading = FilterArgs::HEADING, value_parser = parse_status())]
    status: Option<Status>,

    /// Only events that are parked for this route
    #[arg(long, value_name = "ROUTE", help_heading = FilterArgs::HEADING)]
    parked: Option<String>,

    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    page: PageArgs,

    #[command(flatten)]
    store: StoreArgs,
}

/// Parses a status in lower case.
fn parse_status() -> impl TypedValueParser<Value = Status> {
    PossibleValuesParser::new(["new", "retry", "done", "dead", "archived"]).map(|name| match &*name {
        "new" => Status::New,
        "retry" => Status::Retry,
        "done" => Status::Done,
        "dead" => Status::Dead,
        _ => Status::Archived,
    })
}

pub(super) async fn run(args: EventListArgs, output: Output) -> anyhow::Result<ExitCode> {
    let (filter, request) = (args.filter(), args.page.request());
    let page = connect::with_admin(&args.store.spec()?, async |admin| {
        pages::full_page(admin, &filter, request).await.context("the events cannot be listed")
    })
    .await?;
    let events = page.items.iter().map(Row::from).collect();
    output.print(&EventListReport { events, next: page.next })?;
    Ok(ExitCode::SUCCESS)
}

impl EventListArgs {
    fn filter(&self) -> Filter {
        let mut filter = self.filter.with(self.status);
        filter.parked.clone_from(&self.parked);
        filter
    }
}

#[derive(Debug, Serialize)]
struct EventListReport {
    events: Vec<Row>,
    next: Option<i64>,
}

impl Report for EventListReport {
    fn text(&self) -> String {
        if self.events.is_empty() {
            return "no events match".to_owned();
        }
        let rows = self.events.iter().map(|row| {
            [
                row.id.clone(),
                row.event_type.clone(),
                aggregate(&row.aggregate_type, row.aggregate_id.as_deref()),
                row.status.to_string(),
                row.attempts.to_string(),
                moment(row.inserted_at.0),
                or_dash(row.last_error.as_ref().map(|error| cut(error, MAX_REASON_CHARS))),
            ]
        });
        let table =
            output::columns(["id", "type", "aggregate", "status", "attempts", "inserted", "reason"], rows);
        format!("{table}\n\n{}", pages::footer(self.events.len(), None, self.next))
    }
}
