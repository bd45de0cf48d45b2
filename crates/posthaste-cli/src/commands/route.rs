//! `posthaste pause` and `posthaste resume`: an operator stops the deliveries of a route, and lets
//! them go on.

use std::process::ExitCode;

use anyhow::Context;
use posthaste::StoreError;
use posthaste::admin::Admin;
use serde::Serialize;

use crate::args::ActorArgs;
use crate::connect;
use crate::output::{Output, Report};
use crate::store_args::StoreArgs;
use posthaste_admin::terminal_escape;

/// Stop the deliveries of a route, on every engine
///
/// Its events wait and are parked until `posthaste resume`; no attempt is spent. Any name is taken,
/// because only engines know which routes there are.
///
/// JSON: {"action": "pause", "route", "changed": false if it was paused already}
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  posthaste pause mail
  posthaste pause mail --actor ann --output json")]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    route: RouteArgs,
}

/// Let the deliveries of a route go on
///
/// JSON: {"action": "resume", "route", "changed": false if it was not paused}
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  posthaste resume mail")]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    route: RouteArgs,
}

#[derive(Debug, clap::Args)]
struct RouteArgs {
    /// The name of the route, as `posthaste status` shows it
    #[arg(value_name = "ROUTE", value_parser = parse_route)]
    name: String,

    #[command(flatten)]
    actor: ActorArgs,

    #[command(flatten)]
    store: StoreArgs,
}

/// What can be the name of a route.
fn parse_route(text: &str) -> Result<String, &'static str> {
    let good = (1..=200).contains(&text.chars().count()) && !text.contains(char::is_control);
    if good { Ok(text.to_owned()) } else { Err("1 to 200 characters without control characters") }
}

pub(crate) async fn pause(args: PauseArgs, output: Output) -> anyhow::Result<ExitCode> {
    run(RouteAction::Pause, args.route, output).await
}

pub(crate) async fn resume(args: ResumeArgs, output: Output) -> anyhow::Result<ExitCode> {
    run(RouteAction::Resume, args.route, output).await
}

async fn run(action: RouteAction, args: RouteArgs, output: Output) -> anyhow::Result<ExitCode> {
    let (route, actor) = (args.name, args.actor.name());
    let work = async |admin: &dyn Admin| {
        action.take(admin, &route, &actor).await.context("the route was not changed")
    };
    let changed = connect::with_admin(&args.store.spec()?, work).await?;
    output.print(&RouteReport { action, route, changed })?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum RouteAction {
    Pause,
    Resume,
}

impl RouteAction {
    async fn take(self, admin: &dyn Admin, route: &str, actor: &str) -> Result<bool, StoreError> {
        match self {
            Self::Pause => admin.pause(route, actor).await,
            Self::Resume => admin.resume(route, actor).await,
        }
    }
}

#[derive(Debug, Serialize)]
struct RouteReport {
    action: RouteAction,
    route: String,
    changed: bool,
}

impl Report for RouteReport {
    fn text(&self) -> String {
        let what = match (self.action, self.changed) {
            (RouteAction::Pause, true) => "is paused now: its events wait until `posthaste resume`",
            (RouteAction::Pause, false) => "was paused already",
            (RouteAction::Resume, true) => "goes on",
            (RouteAction::Resume, false) => "was not paused",
        };
        format!("the route {} {what}", terminal_escape::one_line(&self.route))
    }
}
