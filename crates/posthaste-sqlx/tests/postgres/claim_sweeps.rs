//! Claims on a table of which a part cannot be read, or takes longer to read than a claim may take.

use std::time::Duration;

use posthaste::StoreError;
use posthaste::store::{Claimed, Owner, Store as _};
use posthaste_sqlx::PgStore;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::cases::leases::find_rows_below_the_floor;
use crate::support::*;

/// A store with a login of its own, whose reads a row security policy can block.
struct RestrictedStore {
    db: Db,
    role: String,
    store: PgStore,
}

impl RestrictedStore {
    async fn with(rights: &str) -> Self {
        let db = Db::new().await;
        let role = format!("{}_relay", db.schema);
        db.execute(&format!(
            "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {} TO {role}; GRANT {rights} ON outbox_event TO {role};
             GRANT SELECT ON outbox_event_schema, outbox_event_control TO {role}",
            db.schema
        ))
        .await;
        let store = PgStore::builder(&server().username(&role)).schema(db.schema.clone()).connect().await;
        Self { store: store.expect("the store opens"), db, role }
    }

    /// Makes every read of a matching row wait until the returned connection is closed. On a server with a forgotten
    /// transaction, the dead entries of many rows would take that long.
    async fn block_rows(&self, condition: &str) -> PgConnection {
        let key = format!("hashtext('{}')", self.db.schema);
        self.db
            .execute(&format!(
                "CREATE FUNCTION is_free() RETURNS boolean LANGUAGE plpgsql AS $$
                   BEGIN PERFORM pg_advisory_xact_lock_shared({key}); RETURN true; END $$;
                 ALTER TABLE outbox_event ENABLE ROW LEVEL SECURITY;
                 CREATE POLICY held_up ON outbox_event USING (CASE WHEN {condition} THEN is_free() ELSE true END)"
            ))
            .await;
        let mut blocker = administrator().await;
        let lock = AssertSqlSafe(format!("SELECT pg_advisory_lock({key})"));
        sqlx::raw_sql(lock).execute(&mut blocker).await.expect("the lock");
        blocker
    }

    /// Inserts an event that has been due for this long.
    async fn insert(&self, id: &str, due_for: &str) {
        let insert = "INSERT INTO outbox_event (event_id, event_type, payload, available_at) VALUES";
        self.db.execute(&format!("{insert} ('{id}', 'Tested', '{{}}', now() - interval '{due_for}')")).await;
    }

    async fn claim(&self, limit: usize) -> Result<Claimed, StoreError> {
        let (owner, lease) = (Owner::from("tester"), Duration::from_secs(1));
        self.store.claim(&claim_for(&owner).with_lease(lease).with_limit(limit)).await
    }

    /// Claims, and gives up if the claim is blocked.
    async fn claim_or_give_up(&self) -> Vec<String> {
        let held_up = format!("usename = '{}' AND wait_event = 'advisory'", self.role);
        let count = format!("SELECT count(*) FROM pg_stat_activity WHERE {held_up}");
        tokio::select! {
            claimed = self.claim(10) => ids(&claimed.expect("a claim")),
            () = wait_until("it is held up", async || self.db.int(&count).await > 0) => {
                terminate(&held_up).await;
                Vec::new()
            }
        }
    }

    async fn close(self, blocker: Option<PgConnection>) {
        if let Some(blocker) = blocker {
            blocker.close().await.expect("the end");
        }
        self.store.close().await;
        terminate(&format!("usename = '{}'", self.role)).await;
        self.db.execute(&format!("DROP OWNED BY {0}; DROP ROLE {0}", self.role)).await;
        self.db.close().await;
    }
}

fn ids(claimed: &Claimed) -> Vec<String> {
    claimed.events.iter().map(|leased| leased.event.id().to_string()).collect()
}

/// The first claim of a process that has not seen the table before.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn claims_continue_while_no_whole_sweep_can_end() {
    let relay = RestrictedStore::with("SELECT, UPDATE").await;
    let blocker = relay.block_rows("event_id = 'stuck'").await;
    relay.insert("stuck", "1 day").await;
    // The second one is below everything that claims have seen.
    for (id, due_for) in [("new", "0 s"), ("old", "1 hour")] {
        relay.insert(id, due_for).await;
        wait_until("it is claimed", async || {
            relay.claim_or_give_up().await.iter().any(|claimed| claimed == id)
        })
        .await;
        relay.db.execute(&format!("UPDATE outbox_event SET status = 1 WHERE event_id = '{id}'")).await;
    }
    relay.close(Some(blocker)).await;
}

/// Rows that were parked and returned leave dead entries. While any transaction holds an old snapshot, the query for
/// parked names steps over all of them.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn claims_continue_while_the_query_of_parked_names_never_ends() {
    let relay = RestrictedStore::with("SELECT, UPDATE").await;
    let blocker = relay.block_rows("parked IS NOT NULL").await;
    relay.insert("parked", "-1 day").await;
    relay.db.execute("UPDATE outbox_event SET parked = 'mail'").await;
    for id in ["a", "b"] {
        relay.insert(id, "0 s").await;
        let claimed = within_timeout("a claim", relay.claim(1)).await.expect("no error");
        assert_eq!((ids(&claimed), claimed.parked.len()), (vec![id.to_owned()], 0));
        relay.db.execute(&format!("UPDATE outbox_event SET status = 1 WHERE event_id = '{id}'")).await;
    }
    relay.close(Some(blocker)).await;
}

/// A failed sweep has seen nothing, so the next claim begins at the same position.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn claim_after_a_failed_one_finds_rows_that_have_long_been_due() {
    let relay = RestrictedStore::with("SELECT, INSERT").await;
    relay.insert("old", "1 hour").await;
    relay.claim(10).await.expect_err("it may not update");
    relay.db.execute(&format!("GRANT UPDATE ON outbox_event TO {}", relay.role)).await;
    assert_eq!(ids(&relay.claim(10).await.expect("a claim")), ["old"]);
    relay.close(None).await;
}

/// While a snapshot is held, the server keeps every version of every row.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn rows_below_the_claim_floor_are_found_while_a_snapshot_is_held() {
    let db = Db::new().await;
    let mut snapshot = db.connect().await;
    run(&mut snapshot, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM outbox_event")
        .await
        .unwrap();
    find_rows_below_the_floor(&db).await;
    snapshot.close().await.expect("the end");
    db.close().await;
}
