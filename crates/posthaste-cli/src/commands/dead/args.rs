//! What may be typed after `posthaste dead replay` and `posthaste dead discard`.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::args::{ConsentArgs, EventSelection, parse_limit};
use crate::store_args::StoreArgs;

/// Send DEAD events out again, as if they were new
///
/// Attempts, error and lease are reset; an event that was delivered to a part of its destinations
/// goes to the others only, unless --forget-progress says so.
///
/// With --canary N, the N oldest go first. The others follow when each of those is DONE, or gone
/// because it was deleted when it was done. If one is DEAD again, or waits still after
/// --canary-timeout, the others are left alone.
///
/// JSON: {"action": "replay", "dry_run", "matched": how many are meant, "exact": true, "changed": how
/// many were replayed, "remaining": how many match now or null, "unchanged": [ids that are not DEAD],
/// "stopped": only if it ended early, "interrupted|canary", "canary": only with --canary, {"replayed",
/// "delivered", "dead": [{"id", "reason"}], "waiting": [{"id", "why"}]}}
///
/// Exit code 1 if one of the ids is not that of a DEAD event, if the canary was not delivered, or
/// after Ctrl-C, which is heard between two batches.
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

    /// Deliver to every destination again, also to those that have the event
    #[arg(long)]
    pub(super) forget_progress: bool,

    #[command(flatten)]
    pub(super) consent: ConsentArgs,

    #[command(flatten)]
    pub(super) store: StoreArgs,
}

/// How carefully many events are replayed.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(super) struct ReplaySpeed {
    /// At most so many events per second
    #[arg(long, value_name = "N", conflicts_with = "ids")]
    pub(super) rate: Option<NonZeroU32>,

    /// Replay the N oldest first, and the others only when those were delivered
    #[arg(long, value_name = "N", conflicts_with = "ids", value_parser = parse_limit)]
    pub(super) canary: Option<usize>,

    /// How long the first ones may take
    #[arg(long, value_name = "DURATION", requires = "canary", default_value = "60s",
        value_parser = humantime::parse_duration)]
    pub(super) canary_timeout: Duration,
}

/// Delete DEAD events for good
///
/// JSON: as of `dead replay`, with "action": "discard"
///
/// Exit code 1 if one of the ids is not that of a DEAD event, or after Ctrl-C.
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
