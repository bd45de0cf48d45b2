//! Arguments of `posthaste dead replay` and `posthaste dead discard` (clap).

use std::num::NonZeroU32;
use std::time::Duration;

use crate::args::{ConsentArgs, EventSelection, limit_parser};
use crate::store_args::StoreArgs;

/// Send DEAD events out again, as if they were new
///
/// Attempts, error and lease are reset. An event that reached some of its destinations is delivered only to the others,
/// unless --forget-progress is given.
///
/// With --canary N, the N oldest events go first. The others follow when each of those is DONE, or gone because
/// delivered events are deleted. If one is DEAD again, or still waiting after --canary-timeout, the others are not
/// replayed.
///
/// JSON: {"action": "replay", "dry_run", "matched": how many events are selected, "exact": true, "changed": how many
/// were replayed, "remaining": how many match now or null, "unchanged": [ids that are not DEAD], "stopped": only if it
/// ended early, "interrupted|canary", "canary": only with --canary, {"replayed", "delivered", "dead": [{"id",
/// "reason"}], "waiting": [{"id", "why"}]}}
///
/// Exit code 1 if one of the ids is not the id of a DEAD event, if the canary was not delivered, or after Ctrl-C, which
/// takes effect between two batches.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  posthaste dead replay 0197f3c1-6c5e-7b1a-9d55-3f1f2c7d8e90
  posthaste dead replay --all --type OrderPlaced --error 'connection refused' --dry-run
  posthaste dead replay --all --canary 5 --rate 100 --yes")]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    pub(super) selection: EventSelection,

    #[command(flatten)]
    pub(super) speed: ReplaySpeed,

    /// Deliver to every destination again, including those that already have the event
    #[arg(long)]
    pub(super) forget_progress: bool,

    #[command(flatten)]
    pub(super) consent: ConsentArgs,

    #[command(flatten)]
    pub(super) store: StoreArgs,
}

/// Limits on a replay of many events.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(super) struct ReplaySpeed {
    /// At most N events per second
    #[arg(long, value_name = "N", conflicts_with = "ids")]
    pub(super) rate: Option<NonZeroU32>,

    /// Replay the N oldest first, and the others only after those were delivered
    #[arg(long, value_name = "N", conflicts_with = "ids", value_parser = limit_parser())]
    pub(super) canary: Option<usize>,

    /// How long to wait for the events that go first
    #[arg(long, value_name = "DURATION", requires = "canary", default_value = "60s",
        value_parser = humantime::parse_duration)]
    pub(super) canary_timeout: Duration,
}

/// Delete DEAD events permanently
///
/// JSON: the same as for `dead replay`, with "action": "discard"
///
/// Exit code 1 if one of the ids is not the id of a DEAD event, or after Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  posthaste dead discard 0197f3c1-6c5e-7b1a-9d55-3f1f2c7d8e90
  posthaste dead discard --all --tenant acme --dry-run")]
pub(crate) struct DiscardArgs {
    #[command(flatten)]
    pub(super) selection: EventSelection,

    #[command(flatten)]
    pub(super) consent: ConsentArgs,

    #[command(flatten)]
    pub(super) store: StoreArgs,
}
