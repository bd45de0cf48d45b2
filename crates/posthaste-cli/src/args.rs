//! Arguments that several commands share: selections, filters, pages, consent and the actor.

use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use posthaste::admin::{Filter, PageRequest};
use posthaste::{EventId, Status};

/// The events to which a change applies.
#[derive(Debug, Args)]
pub(crate) struct EventSelection {
    #[command(flatten)]
    pub(crate) named: SelectedIds,

    #[command(flatten)]
    pub(crate) filter: FilterArgs,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct SelectedIds {
    /// The ids of the events
    #[arg(value_name = "ID", conflicts_with = "FilterArgs")]
    pub(crate) ids: Vec<String>,

    /// All DEAD events that match the filters
    #[arg(long)]
    pub(crate) all: bool,
}

impl SelectedIds {
    /// Each id once, in the order in which they were given.
    pub(crate) fn ids(&self) -> Vec<EventId> {
        let mut ids: Vec<EventId> = Vec::new();
        for id in self.ids.iter().map(|id| EventId::from(id.as_str())) {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids
    }
}

/// Filters on events; all of them must match.
#[derive(Debug, Default, Args)]
pub(crate) struct FilterArgs {
    /// Only this event type
    #[arg(long = "type", value_name = "TYPE", help_heading = FilterArgs::HEADING)]
    pub(crate) event_type: Option<String>,

    /// Only this aggregate type
    #[arg(long, value_name = "TYPE", help_heading = FilterArgs::HEADING)]
    pub(crate) aggregate_type: Option<String>,

    /// Only this aggregate id
    #[arg(long, value_name = "ID", help_heading = FilterArgs::HEADING)]
    pub(crate) aggregate_id: Option<String>,

    /// Only this tenant
    #[arg(long, value_name = "ID", help_heading = FilterArgs::HEADING)]
    pub(crate) tenant: Option<String>,

    /// Only events whose error contains this text
    #[arg(long, value_name = "TEXT", help_heading = FilterArgs::HEADING)]
    pub(crate) error: Option<String>,

    /// Only events that died at least this long ago, such as 7d or 12h; for other statuses, that were done or inserted
    /// this long ago
    #[arg(long, value_name = "DURATION", help_heading = FilterArgs::HEADING, value_parser = humantime::parse_duration)]
    pub(crate) older_than: Option<Duration>,
}

impl FilterArgs {
    pub(crate) const HEADING: &str = "Filters";

    pub(crate) fn dead(&self) -> Filter {
        self.with(Some(Status::Dead))
    }

    /// These filters and a status.
    pub(crate) fn with(&self, status: Option<Status>) -> Filter {
        let mut filter = Filter::default();
        filter.status = status;
        filter.event_type.clone_from(&self.event_type);
        filter.aggregate_type.clone_from(&self.aggregate_type);
        filter.aggregate_id.clone_from(&self.aggregate_id);
        filter.tenant_id.clone_from(&self.tenant);
        filter.error_contains.clone_from(&self.error);
        filter.older_than = self.older_than;
        filter
    }
}

/// Consent to a change of many events.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConsentArgs {
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,

    /// Only report what would change
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) actor: ActorArgs,
}

impl ConsentArgs {
    pub(crate) fn actor(&self) -> String {
        self.actor.name()
    }
}

/// The person or program that makes a change.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ActorArgs {
    /// The name under which the change is recorded in the audit [default: cli:$USER]
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
}

impl ActorArgs {
    pub(crate) fn name(&self) -> String {
        let user = || ["USER", "LOGNAME", "USERNAME"].iter().find_map(|name| std::env::var(name).ok());
        match (&self.actor, user()) {
            (Some(actor), _) => actor.clone(),
            (None, Some(user)) => format!("cli:{user}"),
            (None, None) => "cli".to_owned(),
        }
    }
}

/// One page of a list.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct PageArgs {
    /// At most N entries
    #[arg(long, value_name = "N", default_value = "20", value_parser = limit_parser())]
    limit: usize,

    /// Continue after this number, which the previous page printed
    #[arg(long, value_name = "SEQ", allow_negative_numbers = true)]
    after: Option<i64>,
}

impl PageArgs {
    pub(crate) fn request(self) -> PageRequest {
        PageRequest::after(self.after, self.limit)
    }
}

/// Parses the size of a page.
pub(crate) fn limit_parser() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=PageRequest::MAX_LIMIT as u64)
}
