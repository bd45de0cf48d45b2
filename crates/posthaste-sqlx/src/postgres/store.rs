//! State of the store that only PostgreSQL needs, and the choice of how it wakes other processes.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Instant;

use posthaste::store::Notifier;
use posthaste::writer::WriterCore;
use posthaste_sql_writer::WriterContext;
use posthaste_sql_writer::postgres::Statements;
use sqlx::{PgConnection, Postgres};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::connection::{ConnectionPath, Connections, Login, named};
use super::{PgStore, PgStoreBuilder, Settings, wake_up};
use crate::settle_throttle::SettleThrottle;
use crate::sql::Sql;
use crate::store::builder::BuilderDialect;
use crate::store::{Inner, StoreDialect};

#[derive(Debug)]
pub(crate) struct State {
    pub(super) settle_throttle: SettleThrottle,
    /// Set once the partition of the archive for today was checked. The first call that archives waits for it.
    pub(super) todays_partition: OnceCell<()>,
    /// When to check the partitions of the next days again. `None`: at the next call that archives.
    next_partition_check: Mutex<Option<Instant>>,
    /// Where to listen for other processes; `None` behind PgBouncer, unless `listen_on` names a connection.
    pub(super) listen: Option<Login>,
    /// Notified to wake other processes. Created with the first Writer, together with the task that sends NOTIFY.
    remote_notifier: OnceLock<Notifier>,
    notify: Notify,
}

impl State {
    pub(super) fn new(listen: Option<Login>, notify: Notify) -> Self {
        let listener = |login: Login| Login::new(named(&login, ConnectionPath::Direct, "posthaste listen"));
        Self {
            settle_throttle: SettleThrottle::default(),
            todays_partition: OnceCell::new(),
            next_partition_check: Mutex::new(None),
            listen: listen.map(listener),
            remote_notifier: OnceLock::new(),
            notify,
        }
    }
}

/// When a write wakes the relays and engines of other processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notify {
    /// Right after the commit, from a connection of the store. While commits do not stop, one notification is for all
    /// commits of up to ten milliseconds. The default: it costs the writers nothing.
    #[default]
    AfterCommit,
    /// By the commit itself. Other processes are woken even if the writing process ends at that moment. But all
    /// notifying commits on the whole server wait for each other: with 16 writers, a quarter to a fifteenth of the
    /// commits per second was measured.
    InTransaction,
    /// Never: other processes poll.
    Off,
}

impl Notify {
    /// The statements of Writers.
    pub(super) fn statements(self, sql: &Sql, path: ConnectionPath) -> Statements {
        let statements = match self {
            Self::InTransaction => Statements::notifying(sql.table_ref()),
            Self::AfterCommit | Self::Off => Statements::new(sql.table_ref()),
        };
        match path {
            ConnectionPath::Direct => statements,
            ConnectionPath::PgBouncer => statements.uncacheable(),
        }
    }
}

impl BuilderDialect for Postgres {
    type Login = Login;
    type Settings = Settings;

    fn sql(builder: &PgStoreBuilder) -> Sql {
        let sql = Sql::new(builder.table.clone()).in_schema(builder.settings.schema.clone());
        match builder.settings.path {
            ConnectionPath::Direct => sql,
            ConnectionPath::PgBouncer => sql.uncacheable(),
        }
    }
}

impl StoreDialect for Postgres {
    type Connections = Connections;
    type State = State;

    fn writer_state(_store: &PgStore) {}

    /// The context keeps the store alive, because the task that wakes other processes ends with the store and a service
    /// may keep only the context.
    fn writer_context(store: &PgStore, core: WriterCore) -> WriterContext<Self::Outbox> {
        let core = match store.0.state.notify {
            Notify::AfterCommit => core.with_notifier(store.remote_notifier()),
            Notify::InTransaction | Notify::Off => core,
        };
        WriterContext::new(core, Arc::clone(&store.0.statements)).keeping(store.clone())
    }

    fn watch(
        store: Weak<Inner<Self>>,
        stop: CancellationToken,
        wake: Notifier,
    ) -> impl Future<Output = ()> + Send + 'static {
        wake_up::listen_until(store, stop, wake)
    }

    fn notify_others(store: &PgStore) {
        if store.0.state.notify != Notify::Off {
            store.remote_notifier().notify();
        }
    }

    async fn finish(store: &PgStore) {
        if store.0.state.remote_notifier.get().is_some() {
            // Other processes may not have been notified of the last commits. It is only a hint, so the wait is short.
            let notify = store.connections().engine(async |connection| store.notify(connection).await);
            let _ = tokio::time::timeout(wake_up::LAST_NOTIFY_TIMEOUT, notify).await;
        }
    }
}

impl PgStore {
    pub(super) fn next_partition_check(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.state.next_partition_check.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The notifier of the task that wakes other processes. The first call starts the task.
    fn remote_notifier(&self) -> Notifier {
        let notifier = self.0.state.remote_notifier.get_or_init(|| {
            let (notifier, stop) = (Notifier::new(), self.0.stop.clone());
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(wake_up::wake_others(Arc::downgrade(&self.0), stop, notifier.clone()));
            }
            notifier
        });
        notifier.clone()
    }

    /// Wakes other processes when the transaction of this connection commits.
    pub(super) async fn notify(&self, connection: &mut PgConnection) -> sqlx::Result<()> {
        self.sql().query::<Postgres>("SELECT pg_notify('{name}', '')").execute(connection).await?;
        Ok(())
    }
}
