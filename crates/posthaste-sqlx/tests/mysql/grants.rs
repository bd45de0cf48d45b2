//! Users with the least rights, as `migrations/mysql/grants.sql` grants them.

use posthaste_sqlx::MySqlStore;
use sqlx::mysql::MySqlConnectOptions;

use crate::cases::grants::{ROLES, grants_for};
use crate::support::*;

const GRANTS: &str = include_str!("../../migrations/mysql/grants.sql");

crate::cases::grants::grant_tests!(#[ignore = "needs MariaDB: cargo xtask test"]);

/// What the error of a missing right mentions.
pub(crate) const ADVICE: &str = "grants";

pub(crate) const FORBIDDEN_TO_WRITERS: &[&str] = &[
    "UPDATE outbox_event SET status = 1",
    "DELETE FROM outbox_event",
    "INSERT INTO outbox_event_control VALUES ('a', '2000-01-01', 'me')",
    "DROP TABLE outbox_event",
];

pub(crate) const FORBIDDEN_TO_RELAYS: &[&str] = &[
    "INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('a', 'b', 'c')",
    "INSERT INTO outbox_event_audit (at, actor, action, target, `rows`) VALUES ('2000-01-01', '', '', '', 1)",
    "ALTER TABLE outbox_event ADD COLUMN surprise INT",
];

/// An outbox of the administrator, and users named after its database.
pub(crate) struct Logins {
    pub(crate) db: Db,
}

impl Logins {
    pub(crate) async fn new() -> Self {
        let logins = Self { db: Db::new().await };
        let user = |role: &str| logins.user(role);
        for role in ROLES {
            administrate(&format!("CREATE USER {}", user(role))).await;
        }
        logins.db.execute(&grants_for(GRANTS, user)).await;
        let as_relay = GRANTS.replace(" relay;", " operator;").replace(" relay,", " operator,");
        logins.db.execute(&grants_for(&as_relay, user)).await;
        logins
    }

    /// The tests connect over TCP from this machine.
    fn user(&self, role: &str) -> String {
        format!("'{}'@'127.0.0.1'", self.name(role))
    }

    /// User names have at most 32 characters.
    fn name(&self, role: &str) -> String {
        format!("{}_{role}", &self.db.name[self.db.name.len() - 16..])
    }

    fn options(&self, role: &str) -> MySqlConnectOptions {
        self.db.options().username(&self.name(role))
    }

    pub(crate) fn builder(&self, role: &str) -> StoreBuilder {
        MySqlStore::builder(&self.options(role))
    }

    pub(crate) async fn pool(&self, role: &str) -> Pool {
        Pool::connect_with(self.options(role)).await.expect("the pool opens")
    }

    pub(crate) fn is_denied(error: &sqlx::Error) -> bool {
        error.to_string().contains("denied")
    }

    /// The archive is one table here.
    pub(crate) async fn assert_archive_is_prepared(&self) {}

    pub(crate) async fn close(self) {
        for role in ROLES {
            administrate(&format!("DROP USER {}", self.user(role))).await;
        }
        self.db.close().await;
    }
}

/// The documentation page contains the same grants.
#[test]
fn page_has_these_grants() {
    assert!(include_str!("../../../../docs/mysql.md").contains(GRANTS.trim_end()));
}
