//! Three roles with the least rights, as `migrations/postgres/grants.sql` gives them: each can do its work
//! through the real API, and nothing else.

use std::error::Error as _;
use std::time::Duration;

use posthaste::admin::{Filter, PageRequest, Replay, Tolerance};
use posthaste::config::{PurgeConfig, Retention};
use posthaste::store::OnDone;
use posthaste::{Admin as _, Outbox, Outcome, Recorder, Routes, Source, Status, StoreError};
use posthaste_sqlx::postgres::PgStoreBuilder;
use posthaste_sqlx::{OpenError, PgStore};
use sqlx::PgPool;
use sqlx::error::DatabaseError;
use sqlx::postgres::PgConnectOptions;

use crate::support::*;

const GRANTS: &str = include_str!("../../migrations/postgres/grants.sql");

/// An outbox of the administrator's, and roles named after its schema.
struct Fixture {
    db: Db,
}

impl Fixture {
    async fn new() -> Self {
        let world = Self { db: Db::new().await };
        let roles = ["writer", "relay", "viewer", "operator", "stranger"].map(|role| world.role(role));
        for role in &roles {
            world.db.execute(&format!("CREATE ROLE {role} LOGIN")).await;
        }
        world.db.execute(&world.grants(GRANTS)).await;
        let for_operators: String = GRANTS.lines().filter_map(|line| line.strip_prefix("--   ")).collect();
        world.db.execute(&world.grants(&for_operators)).await;
        world.db.execute(&format!("GRANT {} TO {}", world.role("relay"), world.role("operator"))).await;
        world
    }

    fn role(&self, name: &str) -> String {
        format!("{}_{name}", self.db.schema)
    }

    fn grants(&self, text: &str) -> String {
        let text = text.replace("\"{table}", &format!("\"{}\".\"outbox_event", self.db.schema));
        let text = text.replace("{schema}", self.db.schema.as_str());
        let roles = ["writer", "relay", "viewer", "operator"];
        roles.iter().fold(text, |text, role| {
            text.replace(&format!(" {role},"), &format!(" {},", self.role(role)))
                .replace(&format!(" {role};"), &format!(" {};", self.role(role)))
        })
    }

    fn login(&self, role: &str) -> PgConnectOptions {
        server().username(&self.role(role)).application_name(self.db.schema.as_str())
    }

    fn builder(&self, role: &str) -> PgStoreBuilder {
        PgStore::builder(&self.login(role)).schema(self.db.schema.clone())
    }

    async fn store(&self, role: &str) -> PgStore {
        self.builder(role).connect().await.unwrap_or_else(|error| panic!("{role}: {error:?}"))
    }

    async fn pool(&self, role: &str) -> PgPool {
        pool_in(&self.db.schema, self.login(role), 2).await
    }

    /// What this role must not do.
    async fn assert_refused(&self, role: &str, statements: &[&str]) {
        let pool = self.pool(role).await;
        for statement in statements {
            let error = run(&pool, statement).await.expect_err(statement);
            let code = error.as_database_error().and_then(DatabaseError::code);
            assert_eq!(code.as_deref(), Some("42501"), "{role}: {statement}: {error}");
        }
        pool.close().await;
    }

    async fn close(self) {
        let roles =
            ["writer", "relay", "viewer", "operator", "stranger"].map(|role| self.role(role)).join(", ");
        terminate(&format!("usename LIKE '{}\\_%'", self.db.schema)).await;
        self.db.execute(&format!("DROP OWNED BY {roles}; DROP ROLE {roles}")).await;
        self.db.close().await;
    }
}

fn assert_not_allowed<T: std::fmt::Debug>(what: &str, answer: Result<T, StoreError>) {
    let error = answer.expect_err(what);
    let source = error.source().unwrap_or_else(|| panic!("{what}: {error:?}"));
    assert!(source.to_string().contains("docs/postgres.md"), "{what}: {error:?}");
}

// S12
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn writer_writes_and_does_nothing_else() {
    let w = Fixture::new().await;
    let (store, pool) = (w.store("writer").await, w.pool("writer").await);
    let writer = plain_writer(&store);
    let mut tx = writer.begin(&pool).await.unwrap();
    tx.write(event("single")).await.unwrap();
    tx.write_all(events(&["batch-1", "batch-2", "single"])).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    let _ = writer.insert(&mut tx, event("receipt")).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(w.db.ids().await, ["single", "batch-1", "batch-2", "receipt"]);

    assert_not_allowed("stats", store.stats().await);
    assert_not_allowed("replay", store.replay_all(&Filter::default(), 5, &Replay::by("me")).await);
    assert_not_allowed("pause", store.pause("a", "me").await);
    let forbidden = [
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
    w.assert_refused("writer", &forbidden).await;
    pool.close().await;
    store.close().await;
    w.close().await;
}

/// A service that delivers its own events is a writer by its pool and a relay by its store.
// S12
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn relay_delivers_archives_and_purges_and_does_nothing_else() {
    let w = Fixture::new().await;
    let (store, pool) = (w.store("relay").await, w.pool("writer").await);
    let recorder = Recorder::with(|delivery| match delivery.id().as_str() {
        "dead" => Outcome::Dead("no".to_owned()),
        _ => Outcome::done(),
    });
    let purge = PurgeConfig::default()
        .with_on_done(OnDone::Archive)
        .with_dead(Retention::delete_after(std::time::Duration::ZERO));
    let outbox = engine(&store, &recorder).purge(purge).start().unwrap();
    let mut tx = store.writer(&outbox).begin(&pool).await.unwrap();
    tx.write_all(events(&["hot", "dead"])).await.unwrap();
    tx.commit().await.unwrap();
    within_timeout("the hot path delivers", recorder.wait_for(2)).await;
    assert!(recorder.deliveries().iter().all(|delivery| delivery.source == Source::Hot));
    w.db.execute("INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('cold', 'T', '{}')").await;
    within_timeout("the engine is idle", outbox.idle()).await.unwrap();
    assert_eq!(w.db.count(Status::Dead).await, 1);
    assert_eq!(outbox.purge_once().await.unwrap(), 1);
    let stats = store.stats().await.expect("a relay may look");
    assert_eq!((stats.archived, stats.dead), (2, 0), "{stats:?}");
    let days = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'outbox_event_archive'::regclass";
    wait_until("a relay has partitions made", async || w.db.int(days).await == 9).await;
    outbox.shutdown().await;
    assert_eq!(diagnosed(&store).await, []);

    assert_not_allowed("pause", store.pause("a", "me").await);
    assert_not_allowed("audit", store.audit(&PageRequest::first(1)).await);
    let forbidden = [
        "INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('x', 'T', '{}')",
        "DELETE FROM outbox_event_archive",
        "UPDATE outbox_event_archive SET status = 0",
        "INSERT INTO outbox_event_schema VALUES (2, 'x', 1)",
        "DELETE FROM outbox_event_control",
        "TRUNCATE outbox_event",
        "DROP TABLE outbox_event",
        "ALTER TABLE outbox_event ADD COLUMN x int",
    ];
    w.assert_refused("relay", &forbidden).await;
    pool.close().await;
    store.close().await;
    w.close().await;
}

// S12
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn viewer_reads_everything_and_changes_nothing() {
    let w = Fixture::new().await;
    w.db.execute("INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('a', 'T', '{}')").await;
    let error = w.builder("viewer").connect().await.expect_err("it may not write");
    assert!(matches!(error, OpenError::OnlyReads { .. }), "{error:?}");
    let store = w.builder("viewer").read_only().connect().await.expect("it may look");
    assert_eq!(store.stats().await.unwrap().new, 1);
    assert_eq!(store.count(&Filter::default()).await.unwrap(), 1);
    assert_eq!(store.list(&Filter::default(), &PageRequest::first(10)).await.unwrap().items.len(), 1);
    assert!(store.get(&"a".into()).await.unwrap().is_some());
    assert!(store.get(&"nobody".into()).await.unwrap().is_none(), "not in the archive either");
    store.dead_groups(10).await.unwrap();
    w.db.store.pause("a", "me").await.unwrap();
    let strict = Tolerance::default().with_paused(Duration::ZERO).with_transaction(Duration::ZERO);
    let findings = diagnosed_with(&store, strict).await;
    assert_eq!(findings.len(), 1, "the transactions of others are not shown: {findings:?}");
    assert_found(&findings, "paused-route", &["by \"me\""]);
    store.audit(&PageRequest::first(10)).await.unwrap();
    assert_not_allowed("pause", store.pause("a", "me").await);
    assert_not_allowed("replay", store.replay_all(&Filter::default(), 5, &Replay::by("me")).await);
    assert_not_allowed("discard", store.discard(&Filter::default(), 5, "me").await);
    let outbox = Outbox::builder(store.clone(), Routes::new()).writer_only().build().unwrap();
    let pool = w.pool("viewer").await;
    let mut tx = store.writer(&outbox).begin(&pool).await.unwrap();
    let _ = tx.write(event("x")).await.expect_err("it may not write");
    drop(tx);
    pool.close().await;
    w.assert_refused("viewer", &["UPDATE outbox_event SET status = 1", "DELETE FROM outbox_event_audit"])
        .await;
    store.close().await;
    w.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn operator_replays_discards_pauses_and_resumes() {
    let w = Fixture::new().await;
    w.db.execute(
        "INSERT INTO outbox_event (event_id, event_type, payload, status) VALUES ('a', 'T', '{}', 3), ('b', 'T', '{}', 3)",
    )
    .await;
    let store = w.store("operator").await;
    assert!(store.replay(&"a".into(), &Replay::by("me")).await.unwrap());
    assert_eq!(store.discard(&Filter::dead(), 5, "me").await.unwrap(), 1);
    assert!(store.pause("r", "me").await.unwrap());
    assert!(store.resume("r", "me").await.unwrap());
    assert_eq!(store.audit(&PageRequest::first(10)).await.unwrap().items.len(), 4);
    store.close().await;
    w.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn stranger_is_refused_with_the_way_to_the_grants() {
    let w = Fixture::new().await;
    for builder in [w.builder("stranger"), w.builder("stranger").read_only(), w.builder("stranger").migrate()]
    {
        let error = builder.connect().await.expect_err("no rights at all");
        assert!(matches!(error, OpenError::NotAllowed { .. }), "{error:?}");
        assert!(error.to_string().contains("docs/postgres.md"), "{error}");
    }
    w.close().await;
}
