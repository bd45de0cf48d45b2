//! `posthaste pause` and `posthaste resume`: stop the deliveries of a route, and start them again.

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

#[derive(Debug, clap::Args)]
pub(crate) struct RouteArgs {
    /// The name of the route, as in the configuration, the metrics and the logs
    #[arg(value_name = "ROUTE", value_parser = parse_route)]
    name: String,

    #[command(flatten)]
    actor: ActorArgs,

    #[command(flatten)]
    store: StoreArgs,
}

/// Parses the name of a route.
fn parse_route(text: &str) -> Result<String, &'static str> {
    let good = (1..=200).contains(&text.chars().count()) && !text.contains(char::is_control);
    if good { Ok(text.to_owned()) } else { Err("1 to 200 characters without control characters") }
}

pub(crate) async fn pause(args: RouteArgs, output: Output) -> anyhow::Result<ExitCode> {
    run(RouteAction::Pause, args, output).await
}

pub(crate) async fn resume(args: RouteArgs, output: Output) -> anyhow::Result<ExitCode> {
    run(RouteAction::Resume, args, output).await
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
            (RouteAction::Resume, true) => "is resumed",
            (RouteAction::Resume, false) => "was not paused",
        };
        format!("the route {} {what}", terminal_escape::one_line(&self.route))
    }
}
