//! Roles with the least rights, as `migrations/postgres/grants.sql` grants them.

use posthaste_sqlx::OpenError;
use sqlx::error::DatabaseError;
use sqlx::postgres::PgConnectOptions;

use crate::cases::grants::{ROLES, grants_for};
use crate::support::*;

const GRANTS: &str = include_str!("../../migrations/postgres/grants.sql");

crate::cases::grants::grant_tests!(#[ignore = "needs PostgreSQL: cargo xtask test"]);

/// What the error of a missing right mentions.
pub(crate) const ADVICE: &str = "docs/postgres.md";

pub(crate) const FORBIDDEN_TO_WRITERS: &[&str] = &[
    "UPDATE outbox_event SET status = 1",
    "DELETE FROM outbox_event",
    "SELECT payload FROM outbox_event",
    "SELECT headers, last_error FROM outbox_event",
    "INSERT INTO outbox_event (event_id, event_type, payload, status) VALUES ('x', 'T', '{}', 1)",
    "INSERT INTO outbox_event (seq, event_id, event_type, payload) VALUES (1, 'x', 'T', '{}')",
    "SELECT * FROM outbox_event_archive",
    "INSERT INTO outbox_event_control VALUES ('a', now(), 'me')",
    "SELECT outbox_event_archive_day('2026-01-01')",
    "TRUNCATE outbox_event",
    "DROP TABLE outbox_event",
];

pub(crate) const FORBIDDEN_TO_RELAYS: &[&str] = &[
    "INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('x', 'T', '{}')",
    "DELETE FROM outbox_event_archive",
    "UPDATE outbox_event_archive SET status = 0",
    "INSERT INTO outbox_event_schema VALUES (2, 'x', 1)",
    "DELETE FROM outbox_event_control",
    "TRUNCATE outbox_event",
    "DROP TABLE outbox_event",
    "ALTER TABLE outbox_event ADD COLUMN x int",
];

/// An outbox of the administrator, and roles named after its schema.
pub(crate) struct Logins {
    pub(crate) db: Db,
}

impl Logins {
    pub(crate) async fn new() -> Self {
        let logins = Self { db: Db::new().await };
        let role = |name: &str| logins.role(name);
        for name in ROLES.into_iter().chain(["stranger"]) {
            logins.db.execute(&format!("CREATE ROLE {} LOGIN", role(name))).await;
        }
        let grants = GRANTS.replace("\"{table}", &format!("\"{}\".\"outbox_event", logins.db.schema));
        let grants = grants_for(&grants.replace("{schema}", logins.db.schema.as_str()), role);
        logins.db.execute(&format!("{grants}; GRANT {} TO {}", role("relay"), role("operator"))).await;
        logins
    }

    fn role(&self, name: &str) -> String {
        format!("{}_{name}", self.db.schema)
    }

    fn options(&self, role: &str) -> PgConnectOptions {
        server().username(&self.role(role)).application_name(self.db.schema.as_str())
    }

    pub(crate) fn builder(&self, role: &str) -> StoreBuilder {
        self.db.builder_on(&self.options(role))
    }

    pub(crate) async fn pool(&self, role: &str) -> Pool {
        pool_in(&self.db.schema, self.options(role), 2).await
    }

    pub(crate) fn is_denied(error: &sqlx::Error) -> bool {
        error.as_database_error().and_then(DatabaseError::code).as_deref() == Some("42501")
    }

    /// Asserts that today and the next seven days have partitions, in addition to the default one.
    pub(crate) async fn assert_archive_is_prepared(&self) {
        let days = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'outbox_event_archive'::regclass";
        wait_until("a relay has partitions made", async || self.db.int(days).await == 9).await;
    }

    pub(crate) async fn close(self) {
        let roles = [ROLES.as_slice(), &["stranger"]].concat();
        let roles = roles.iter().map(|role| self.role(role)).collect::<Vec<_>>().join(", ");
        terminate(&format!("usename LIKE '{}\\_%'", self.db.schema)).await;
        self.db.execute(&format!("DROP OWNED BY {roles}; DROP ROLE {roles}")).await;
        self.db.close().await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn viewer_who_wants_to_write_is_refused() {
    let logins = Logins::new().await;
    let error = logins.builder("viewer").connect().await.expect_err("it may not write");
    assert!(matches!(error, OpenError::OnlyReads { .. }), "{error:?}");
    logins.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn user_without_rights_is_refused_with_the_location_of_the_grants() {
    let logins = Logins::new().await;
    let builder = || logins.builder("stranger");
    for builder in [builder(), builder().read_only(), builder().migrate()] {
        let error = builder.connect().await.expect_err("no rights at all");
        assert!(matches!(error, OpenError::NotAllowed { .. }), "{error:?}");
        assert!(error.to_string().contains("docs/postgres.md"), "{error}");
    }
    logins.close().await;
}
