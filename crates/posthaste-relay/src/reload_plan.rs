//! Reload plan: compares a new configuration with what runs, and prepares all changes or refuses the whole.

use std::sync::Arc;

use crate::RelayError;
use crate::config::{AdminConfig, LogConfig, OutboxConfig, RelayConfig};
use crate::relay_outbox::{OutboxPlan, RelayOutbox};

/// The changes of one reload: each outbox that changes, with its new plan.
pub(crate) type PlanChanges = Vec<(Arc<RelayOutbox>, OutboxPlan)>;

/// Compares what runs with a new configuration, without changing anything. The error names every setting that cannot
/// change while the relay runs.
pub(crate) fn compare(
    log: &LogConfig,
    admin: &AdminConfig,
    running: &[Arc<RelayOutbox>],
    config: RelayConfig,
) -> Result<PlanChanges, RelayError> {
    let mut refused = Vec::new();
    if config.admin != *admin {
        refused.push("admin".to_owned());
    }
    if config.log != *log {
        refused.push("log".to_owned());
    }
    let named = |name: &str| config.outboxes.iter().find(|outbox| outbox.config.name == name);
    let mut changes = Vec::new();
    for outbox in running {
        let name = outbox.admin().name().to_owned();
        let Some(new) = named(&name) else {
            refused.push(format!("outbox.{name}, which is gone"));
            continue;
        };
        let old = outbox.config();
        refused.extend(fixed(&old, new).map(|key| format!("outbox.{name}.{key}")));
        if old.config != new.config || old.routes != new.routes {
            changes.push((Arc::clone(outbox), new.clone()));
        }
    }
    let known = |name: &str| running.iter().any(|outbox| outbox.admin().name() == name);
    let added = config.outboxes.iter().map(|outbox| &outbox.config.name).filter(|name| !known(name));
    refused.extend(added.map(|name| format!("outbox.{name}, which is new")));
    if !refused.is_empty() {
        return Err(RelayError::Fixed(refused.join("; ")));
    }
    let prepare = |(outbox, config): (Arc<RelayOutbox>, OutboxConfig)| {
        let plan = outbox.prepare(config)?;
        Ok((outbox, plan))
    };
    changes.into_iter().map(prepare).collect()
}

/// The keys of an outbox that differ and cannot change while it runs.
fn fixed(old: &OutboxConfig, new: &OutboxConfig) -> impl Iterator<Item = &'static str> {
    let differs = [
        ("store", old.store.url != new.store.url),
        ("table", old.store.outbox_ref().table != new.store.outbox_ref().table),
        ("schema", old.store.outbox_ref().schema != new.store.outbox_ref().schema),
        ("layout", old.store.layout != new.store.layout),
        ("pgbouncer", old.store.pgbouncer != new.store.pgbouncer),
        ("migrate", old.migrate != new.migrate),
        ("metrics.prefix", old.config.metrics != new.config.metrics),
    ];
    differs.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key)
}
