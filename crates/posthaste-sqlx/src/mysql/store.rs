//! State of the store that only MySQL needs.

use std::sync::Weak;
use std::sync::atomic::AtomicBool;

use posthaste::store::Notifier;
use posthaste_sql_writer::mysql::Flavour;
use sqlx::MySql;
use tokio_util::sync::CancellationToken;

use super::connection::{Connections, Login};
use super::{MySqlStore, wake_up};
use crate::settle_throttle::SettleThrottle;
use crate::store::builder::BuilderDialect;
use crate::store::{Inner, StoreDialect};

#[derive(Debug)]
pub(crate) struct State {
    pub(super) flavour: Flavour,
    /// True if the next claim may find rows that do not fit together, and so reads their sizes first. Set until a claim
    /// has finished without meeting large rows.
    pub(super) large_rows: AtomicBool,
    pub(super) settle_throttle: SettleThrottle,
}

impl State {
    pub(super) fn new(flavour: Flavour) -> Self {
        Self { flavour, large_rows: AtomicBool::new(true), settle_throttle: SettleThrottle::default() }
    }
}

impl BuilderDialect for MySql {
    type Login = Login;
    type Settings = ();
}

impl StoreDialect for MySql {
    type Connections = Connections;
    type State = State;

    fn writer_state(_store: &MySqlStore) {}

    fn watch(
        store: Weak<Inner<Self>>,
        stop: CancellationToken,
        wake: Notifier,
    ) -> impl Future<Output = ()> + Send + 'static {
        wake_up::watch(store, stop, wake)
    }
}
