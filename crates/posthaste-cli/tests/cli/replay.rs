//! Replays of many DEAD events: with a rate, with a canary, and interrupted by Ctrl-C.

use std::process::Stdio;
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use posthaste::config::PurgeConfig;
use posthaste::store::OnDone;
use posthaste::{Config, Delivery, Outbox, Outcome, Route, Routes, handler};
use posthaste_sqlx::SqliteStore;

use crate::binary::signal;
use crate::command_output::CommandOutput;
use crate::shop::{Shop, StoreKind};

const STATES_SQL: &str = "SELECT event_id || '=' || status FROM outbox_event ORDER BY seq";
const AUDIT_SQL: &str = "SELECT target || ' ' || rows FROM outbox_event_audit ORDER BY seq";

/// Runs the binary while an engine delivers from the same file.
fn run_beside_an_engine(
    shop: &Shop,
    on_done: OnDone,
    deliver: fn(&Delivery) -> Outcome,
    args: &str,
) -> CommandOutput {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let mut config = Config::default();
    config.poller.interval = Duration::from_millis(20);
    config.purge = PurgeConfig::default().with_on_done(on_done);
    let take = handler(move |event: Delivery| std::future::ready(deliver(&event)));
    let routes = Routes::new().add(Route::fallback().deliver_to(take));
    let outbox = runtime.block_on(async {
        let store = SqliteStore::builder(&shop.sqlite_options()).connect().await.expect("the outbox opens");
        Outbox::from_config(store, config, routes).start().expect("the engine starts")
    });
    let output = shop.run(args);
    runtime.block_on(outbox.shutdown());
    output
}

fn dead(shop: &Shop, count: usize) {
    shop.sql(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
         INSERT INTO outbox_event (event_id, event_type, payload, status) SELECT 'e-' || i, 'A', '{{}}', 3 FROM n"
    ));
}

/// The audit, without the ages of the filters, which depend on the speed of the machine.
fn audited(shop: &Shop) -> String {
    let text = shop.query(AUDIT_SQL);
    let args = text.split(' ').map(|word| if word.starts_with("older_than=") { "older" } else { word });
    args.filter(|word| !word.ends_with("ms") && !word.ends_with("us") && !word.ends_with("ns"))
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn others_follow_a_delivered_canary() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    let output =
        run_beside_an_engine(&shop, OnDone::Keep, |_| Outcome::done(), "dead replay --all --canary 1 --yes");
    assert_snapshot!(output, @"
    canary of 1 event: 1 delivered, 0 DEAD again, 0 still waiting
    3 events replayed
    --- exit code 0
    ");
    assert_eq!(audited(&shop), "d-1 1 status=DEAD older 2", "the canary is on record by its id");
    let first = "SELECT event_id FROM outbox_event WHERE replays = 1 ORDER BY seq";
    assert_eq!(shop.query(first), "d-1 d-2 d-3");
}

#[test]
fn deleted_canary_counts_as_delivered() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    let args = "dead replay --all --canary 2 --yes --output json";
    assert_snapshot!(run_beside_an_engine(&shop, OnDone::Delete, |_| Outcome::done(), args), @r#"
    {"action":"replay","dry_run":false,"matched":3,"exact":true,"changed":3,"remaining":0,"unchanged":[],"canary":{"replayed":2,"delivered":2,"dead":[],"waiting":[]}}
    --- exit code 0
    "#);
}

#[test]
fn others_are_not_replayed_if_a_canary_dies_again() {
    fn refuse_one(event: &Delivery) -> Outcome {
        match event.id().as_str() {
            "d-1" => Outcome::Dead("no such customer".into()),
            _ => Outcome::done(),
        }
    }
    let args = "dead replay --all --canary 2 --yes";
    let shop = Shop::seeded(StoreKind::Sqlite);
    assert_snapshot!(run_beside_an_engine(&shop, OnDone::Keep, refuse_one, args), @"
    canary of 2 events: 1 delivered, 1 DEAD again, 0 still waiting
    2 events replayed
    2 events still DEAD: nothing more was replayed, because of the canary
    --- stderr
    error: d-1 is DEAD again: no such customer
    --- exit code 1
    ");
    assert_eq!(shop.query("SELECT event_id FROM outbox_event WHERE status = 3"), "d-1 d-3");
    assert_eq!(shop.query(AUDIT_SQL), "d-1 1 d-2 1");
    let json = Shop::seeded(StoreKind::Sqlite);
    let args = &format!("{args} --output json");
    assert_snapshot!(run_beside_an_engine(&json, OnDone::Keep, refuse_one, args), @r#"
    {"action":"replay","dry_run":false,"matched":3,"exact":true,"changed":2,"remaining":2,"unchanged":[],"stopped":"canary","canary":{"replayed":2,"delivered":1,"dead":[{"id":"d-1","reason":"no such customer"}],"waiting":[]}}
    --- stderr
    error: d-1 is DEAD again: no such customer
    --- exit code 1
    "#);
}

#[test]
fn canary_without_an_engine_asks_for_a_relay() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    assert_snapshot!(shop.run("dead replay --all --canary 2 --canary-timeout 1ms --yes"), @"
    canary of 2 events: 0 delivered, 0 DEAD again, 2 still waiting
    2 events replayed
    1 event still DEAD: nothing more was replayed, because of the canary
    --- stderr
    error: d-1 is still waiting: no engine has taken it: is a relay running?
    error: d-2 is still waiting: no engine has taken it: is a relay running?
    --- exit code 1
    ");
    assert_eq!(shop.query(STATES_SQL), "n-1=0 n-2=2 d-1=0 d-2=0 d-3=3 f-1=1 f-2=1 f-3=1");
    assert_snapshot!(shop.run("dead replay --all --canary 2 --canary-timeout 1ms --yes --output json"), @r#"
    {"action":"replay","dry_run":false,"matched":1,"exact":true,"changed":1,"remaining":0,"unchanged":[],"stopped":"canary","canary":{"replayed":1,"delivered":0,"dead":[],"waiting":[{"id":"d-3","why":"no engine has taken it: is a relay running?"}]}}
    --- stderr
    error: d-3 is still waiting: no engine has taken it: is a relay running?
    --- exit code 1
    "#);
}

#[test]
fn canary_needs_consent() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    assert_snapshot!(shop.run("dead replay --all --canary 2"), @"
    --- stderr
    error: this would replay 3 events, the oldest 2 first (status=DEAD); there is no terminal to ask on: add --yes to proceed, or --dry-run to see what would change
    --- exit code 2
    ");
    assert_snapshot!(shop.run("dead replay --all --canary 2 --dry-run"), @"
    3 events would be replayed; nothing was changed
    --- exit code 0
    ");
    assert_eq!(shop.query(AUDIT_SQL), "");
}

#[test]
fn rate_is_kept_in_small_batches() {
    let shop = Shop::empty(StoreKind::Sqlite);
    dead(&shop, 25);
    let began = Instant::now();
    assert_snapshot!(shop.run("dead replay --all --rate 100 --yes"), @"
    25 events replayed
    --- exit code 0
    ");
    assert!(began.elapsed() >= Duration::from_millis(200), "{:?}", began.elapsed());
    assert_eq!(audited(&shop), "status=DEAD 10 status=DEAD older 10 status=DEAD older 5");
}

#[test]
fn interrupted_replay_reports_its_progress() {
    let shop = Shop::empty(StoreKind::Sqlite);
    dead(&shop, 100);
    let mut command = shop.command("dead replay --all --rate 1 --yes");
    let replay = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The first entry in the audit shows that it handles Ctrl-C by now.
    let deadline = Instant::now() + Duration::from_secs(60);
    while shop.query(AUDIT_SQL).is_empty() {
        assert!(Instant::now() < deadline, "nothing is replayed");
    }
    signal(&replay, "INT");
    let output = CommandOutput::of(replay.wait_with_output().unwrap());
    assert_eq!((output.code, output.stderr.as_str()), (1, ""), "{output}");
    let replayed = shop.query(AUDIT_SQL).split_whitespace().filter(|word| *word == "1").count();
    let events = if replayed == 1 { "event" } else { "events" };
    let first = format!("{replayed} {events} replayed, then interrupted\n");
    let rest = format!("{} events still DEAD: run the same command again for the rest\n", 100 - replayed);
    assert_eq!(output.stdout, first + &rest);
}
