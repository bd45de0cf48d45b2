//! `posthaste audit`: what operators did, newest first.

use std::process::ExitCode;

use anyhow::Context;
use posthaste::admin::{AuditEntry, Page};
use serde::Serialize;

use super::shared::pages;
use crate::args::PageArgs;
use crate::connect;
use crate::output::{self, Output, Report, moment};
use crate::store_args::StoreArgs;
use posthaste_admin::wire;

/// What operators did, newest first, page by page
///
/// JSON: {"entries": [{"seq", "at", "actor", "action": "replay|discard|purge|pause|resume",
/// "target": an id, a filter or a route, "rows": how many it changed}], "next": number for --after or null}
#[derive(Debug, clap::Args)]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    page: PageArgs,

    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) async fn run(args: AuditArgs, output: Output) -> anyhow::Result<ExitCode> {
    let request = args.page.request();
    let page = connect::with_admin(&args.store.spec()?, async |admin| {
        admin.audit(&request).await.context("the audit cannot be read")
    })
    .await?;
    output.print(&AuditReport::of(&page, request.after.is_none()))?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, Serialize)]
struct AuditReport {
    #[serde(flatten)]
    page: wire::Audit,
    #[serde(skip)]
    first: bool,
}

impl AuditReport {
    fn of(page: &Page<AuditEntry>, first: bool) -> Self {
        Self { page: page.into(), first }
    }
}

impl Report for AuditReport {
    fn text(&self) -> String {
        if self.page.entries.is_empty() {
            let nothing = if self.first { "no operator has changed anything" } else { "nothing older" };
            return nothing.to_owned();
        }
        let rows = self.page.entries.iter().map(|entry| {
            let [actor, action, target] = [&entry.actor, &entry.action, &entry.target].map(Clone::clone);
            [moment(entry.at.0), actor, action, entry.rows.to_string(), target]
        });
        let table = output::columns(["when", "who", "what", "rows", "to what"], rows);
        format!("{table}\n\n{}", pages::footer(self.page.entries.len(), None, self.page.next))
    }
}
