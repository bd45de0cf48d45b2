//! The types of which the store of SQLite is made.

use std::sync::Weak;

use posthaste::store::Notifier;
use sqlx::Sqlite;
use sqlx::sqlite::SqliteConnectOptions;
use tokio_util::sync::CancellationToken;

use super::connection::Connections;
use super::writer::WriterState;
use super::{SqliteStore, wake_up};
use crate::store::builder::BuilderDialect;
use crate::store::{Inner, StoreDialect};

impl BuilderDialect for Sqlite {
    type Login = SqliteConnectOptions;
    type Settings = ();
}

impl StoreDialect for Sqlite {
    type Connections = Connections;
    type State = WriterState;

    fn writer_state(store: &SqliteStore) -> WriterState {
        store.0.state.clone()
    }

    fn watch(
        store: Weak<Inner<Self>>,
        stop: CancellationToken,
        wake: Notifier,
    ) -> impl Future<Output = ()> + Send + 'static {
        wake_up::watch(store, stop, wake)
    }
}
