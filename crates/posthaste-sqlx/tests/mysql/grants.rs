//! Users with the least rights, as `migrations/mysql/grants.sql` gives them: each can do its work through the
//! real API, and nothing else.

use std::error::Error as _;
use std::time::Duration;

use posthaste::admin::{Filter, PageRequest, Replay, Tolerance};
use posthaste::config::{PurgeConfig, Retention};
use posthaste::store::OnDone;
use posthaste::{Admin as _, Outbox, Outcome, Recorder, Status, StoreError};
use posthaste_sqlx::MySqlStore;
use posthaste_sqlx::mysql::MySqlStoreBuilder;
use sqlx::MySqlPool;
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};

use crate::support::*;

const GRANTS: &str = include_str!("../../migrations/mysql/grants.sql");
const USERS: [&str; 4] = ["writer", "relay", "viewer", "operator"];

/// An outbox of the administrator's, and users named after its database.
struct Fixture {
    db: Db,
}

impl Fixture {
    async fn new() -> Self {
        let world = Self { db: Db::new().await };
        for user in USERS {
            administrate(&format!("CREATE USER {}", world.user(user))).await;
        }
        world.grant(GRANTS).await;
        let for_operators: String = GRANTS.lines().filter_map(|line| line.strip_prefix("--   ")).collect();
        world.grant(&for_operators).await;
        world.grant(&GRANTS.replace(" relay;", " operator;").replace(" relay,", " operator,")).await;
        world
    }

    /// The tests connect over TCP, from this machine.
    fn user(&self, name: &str) -> String {
        format!("'{}'@'127.0.0.1'", self.name(name))
    }

    /// A user's name has at most 32 characters.
    fn name(&self, name: &str) -> String {
        format!("{}_{name}", &self.db.name[self.db.name.len() - 16..])
    }

    async fn grant(&self, text: &str) {
        let text = USERS.iter().fold(text.to_owned(), |text, user| {
            text.replace(&format!(" {user},"), &format!(" {},", self.user(user)))
                .replace(&format!(" {user};"), &format!(" {};", self.user(user)))
        });
        self.db.execute(&text).await;
    }

    fn login(&self, user: &str) -> MySqlConnectOptions {
        self.db.options.clone().username(&self.name(user))
    }

    fn builder(&self, user: &str) -> MySqlStoreBuilder {
        MySqlStore::builder(&self.login(user))
    }

    async fn store(&self, user: &str) -> MySqlStore {
        self.builder(user).connect().await.unwrap_or_else(|error| panic!("{user}: {error:?}"))
    }

    async fn pool(&self, user: &str) -> MySqlPool {
        let pool = MySqlPoolOptions::new().max_connections(2).connect_with(self.login(user)).await;
        pool.expect("the pool opens")
    }

    /// What this user must not do.
    async fn assert_refused(&self, user: &str, statements: &[&str]) {
        let pool = self.pool(user).await;
        for statement in statements {
            let error = run(&pool, statement).await.expect_err(statement);
            assert!(error.to_string().contains("denied"), "{user}: {statement}: {error}");
        }
        pool.close().await;
    }

    async fn close(self) {
        for user in USERS {
            administrate(&format!("DROP USER {}", self.user(user))).await;
        }
        self.db.close().await;
    }
}

fn assert_not_allowed<T: std::fmt::Debug>(what: &str, answer: Result<T, StoreError>) {
    let error = answer.expect_err(what);
    let source = error.source().unwrap_or_else(|| panic!("{what}: {error:?}"));
    assert!(source.to_string().contains("grants"), "{what}: {error:?}");
}

// S12
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn writer_writes_and_does_nothing_else() {
    let w = Fixture::new().await;
    let (store, pool) = (w.store("writer").await, w.pool("writer").await);
    let writer = plain_writer(&store);
    let mut tx = writer.begin(&pool).await.unwrap();
    tx.write(event("single")).await.unwrap();
    tx.write_all(events(&["batch-1", "batch-2", "single"])).await.unwrap();
    sqlx::query("SELECT 1").execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    let _ = writer.insert(&mut tx, event("receipt")).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(w.db.ids().await, ["single", "batch-1", "batch-2", "receipt"]);

    assert_not_allowed("stats", store.stats().await);
    assert_not_allowed("pause", store.pause("a", "me").await);
    let forbidden = [
        "UPDATE outbox_event SET status = 1",
        "DELETE FROM outbox_event",
        "INSERT INTO outbox_event_control VALUES ('a', '2000-01-01', 'me')",
        "DROP TABLE outbox_event",
    ];
    w.assert_refused("writer", &forbidden).await;
    store.close().await;
    pool.close().await;
    w.close().await;
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn relay_delivers_archives_and_purges_and_does_nothing_else() {
    let w = Fixture::new().await;
    let writer = w.db.plain_writer();
    let mut tx = writer.begin(&w.db.pool).await.unwrap();
    tx.write_all(events(&["good", "bad"])).await.unwrap();
    tx.commit().await.unwrap();
    let store = w.store("relay").await;
    let recorder = Recorder::with(|delivery| match delivery.id().as_str() {
        "bad" => Outcome::Dead("no use".to_owned()),
        _ => Outcome::done(),
    });
    let routes = posthaste::Routes::new().add(posthaste::Route::fallback().deliver_to(recorder.clone()));
    let purge = PurgeConfig::default()
        .with_on_done(OnDone::Archive)
        .with_dead(Retention::delete_after(std::time::Duration::ZERO));
    let outbox = Outbox::builder(store.clone(), routes).single_node().purge(purge).start().unwrap();
    within_timeout("both are delivered", recorder.wait_for(2)).await;
    wait_until("they are settled", async || w.db.count(Status::New).await == 0).await;
    outbox.purge_once().await.unwrap();
    assert!(w.db.ids().await.is_empty());
    assert_eq!(w.db.count(Status::Archived).await, 1);
    outbox.shutdown().await;
    assert_not_allowed("pause", store.pause("a", "me").await);
    let forbidden = [
        "INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('a', 'b', 'c')",
        "INSERT INTO outbox_event_audit (at, actor, action, target, `rows`) VALUES ('2000-01-01', '', '', '', 1)",
        "ALTER TABLE outbox_event ADD COLUMN surprise INT",
    ];
    w.assert_refused("relay", &forbidden).await;
    store.close().await;
    w.close().await;
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn viewer_looks_and_operator_acts() {
    let w = Fixture::new().await;
    w.db.execute(
        "INSERT INTO outbox_event (event_id, event_type, payload, status) VALUES ('dead', 'T', '{}', 3)",
    )
    .await;
    let viewer = w.builder("viewer").read_only().connect().await.unwrap();
    assert_eq!(viewer.stats().await.unwrap().dead, 1);
    assert_eq!(viewer.list(&Filter::default(), &PageRequest::first(5)).await.unwrap().items.len(), 1);
    viewer.audit(&PageRequest::first(5)).await.unwrap();
    let strict = Tolerance::default().with_transaction(Duration::ZERO).with_dead_rows(u64::MAX);
    let findings = diagnosed_with(&viewer, strict).await;
    assert_eq!(findings.len(), 1, "the transactions of others are not shown: {findings:?}");
    assert_found(&findings, "dead-events", &["DEAD events: 1"]);
    assert_not_allowed("replay", viewer.replay_all(&Filter::default(), 5, &Replay::by("me")).await);
    let operator = w.store("operator").await;
    assert_eq!(operator.replay_all(&Filter::default(), 5, &Replay::by("me")).await.unwrap(), 1);
    assert!(operator.pause("a", "me").await.unwrap() && operator.resume("a", "me").await.unwrap());
    assert_eq!(operator.audit(&PageRequest::first(5)).await.unwrap().items.len(), 3);
    viewer.close().await;
    operator.close().await;
    w.close().await;
}

/// The page has the same grants.
#[test]
fn page_has_these_grants() {
    assert!(include_str!("../../../../docs/mysql.md").contains(GRANTS.trim_end()));
}
