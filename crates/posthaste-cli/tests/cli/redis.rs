//! Operators' commands on Redis.

use insta::assert_snapshot;
use posthaste_redis::RedisStore;
use posthaste_testkit::variable;
use redis::cmd;
use redis::streams::StreamRangeReply;

use crate::redis_outbox::RedisOutbox;
use crate::servers::command_on;
use crate::sqlite_outbox::CommandOutput;

#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn status_counts_every_state() {
    let shop = RedisOutbox::seeded();
    assert_eq!(shop.run("pause mail").code, 0);
    assert_snapshot!(shop.run("status"), @"
    shop in redis://db.example/

    pending      2  1 NEW, 1 RETRY
      due now    1
      on lease   0  an engine works on them
      parked     0  their route is closed
      scheduled  1  their time has not come
    done         2
    dead         3
    archived     0

    oldest pending  0s
    paused routes   mail

    waiting by type    events  oldest
    Order:OrderPlaced  2       0s

    waiting by tenant  events  oldest
    -                  1       0s
    acme               1       0s

    finding  what                                                                                   what to do
    warning  DEAD events: 3                                                                         look at their reasons, mend the cause, then replay or discard them
    note     a crash of the machine can lose the last second of writes (appendfsync is not always)  set appendfsync to always where that matters more than speed
    --- exit code 0
    ");
    assert_snapshot!(shop.run("status --output json"), @r#"
    {"store":"redis://db.example/","table":"shop","pending":{"new":1,"retry":1,"due":1,"leased":0,"parked":0,"scheduled":1},"done":2,"dead":3,"archived":0,"estimated":{"pending":false,"done":false,"dead":false,"archived":false},"oldest_pending_seconds":0.0,"paused":["mail"],"by_type":{"groups":[{"key":"Order:OrderPlaced","count":2,"oldest_seconds":0.0}],"complete":true},"by_tenant":{"groups":[{"key":null,"count":1,"oldest_seconds":0.0},{"key":"acme","count":1,"oldest_seconds":0.0}],"complete":true},"findings":[{"code":"dead-events","severity":"warning","what":"DEAD events: 3","advice":"look at their reasons, mend the cause, then replay or discard them"},{"code":"redis-fsync","severity":"note","what":"a crash of the machine can lose the last second of writes (appendfsync is not always)","advice":"set appendfsync to always where that matters more than speed"}]}
    --- exit code 0
    "#);
    shop.end();
}

/// With no engine running, this is when one wants to know how much waits.
#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn events_that_no_engine_has_seen_are_counted() {
    let shop = RedisOutbox::empty();
    shop.write(RedisStore::builder(shop.url()).unwrap(), 3);
    let status = shop.json("status");
    assert_eq!((&status["pending"]["new"], &status["pending"]["due"]), (&3.into(), &3.into()), "{status}");
    shop.end();
}

#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn outbox_of_the_default_name_is_meant_without_one() {
    let shop = RedisOutbox::empty();
    let output = CommandOutput::of(command_on(shop.url(), "status").output().unwrap());
    assert!(output.stdout.starts_with("outbox in redis://"), "{output}");
}

#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn event_is_shown_with_headers_and_payload() {
    let shop = RedisOutbox::seeded();
    assert_snapshot!(shop.run("event show d-1"), @r#"
    id            d-1
    type          OrderPlaced
    status        DEAD
    error         connection refused
    aggregate     Order o-1
    tenant        acme
    attempts      10
    happened      2020-01-02T03:00:00.000000Z
    inserted      2020-01-02T03:00:00.000000Z
    done or dead  2020-01-02T03:04:05.000000Z
    seq           1654583721984000512

    header  value
    region  eu

    payload (JSON, 28 bytes)
    {
      "total": 1.50,
      "items": []
    }
    --- exit code 0
    "#);
    assert_eq!(shop.run("dead show d-1").stdout, shop.run("event show d-1").stdout);
    assert_eq!(shop.run("dead show n-1").code, 1);
    assert_eq!(shop.run("event show nobody").code, 1);
    shop.end();
}

// S1-25
#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn dead_events_are_listed_replayed_and_discarded() {
    let shop = RedisOutbox::seeded();
    assert_snapshot!(shop.run("dead list"), @"
    events  type         aggregate  last died             reason
    2       OrderPlaced  Order      2020-01-02T03:04:06Z  connection refused
    1       MailSent     Order      2020-01-02T03:04:07Z  no route

    id   type         aggregate  attempts  died                  reason
    d-1  OrderPlaced  Order o-1  10        2020-01-02T03:04:05Z  connection refused
    d-2  OrderPlaced  Order o-2  10        2020-01-02T03:04:06Z  connection refused
    d-3  MailSent     Order o-9  0         2020-01-02T03:04:07Z  no route

    3 of 3 shown
    --- exit code 0
    ");
    assert_snapshot!(shop.run("dead replay --all --type OrderPlaced --dry-run"), @"
    2 events would be replayed; nothing was changed
    --- exit code 0
    ");
    assert_snapshot!(shop.run("dead replay --all --type OrderPlaced --yes"), @"
    2 events replayed
    --- exit code 0
    ");
    assert_snapshot!(shop.run("dead discard d-3 n-1 --yes"), @"
    1 event discarded
    --- stderr
    error: n-1 is not the id of a DEAD event
    --- exit code 1
    ");
    assert_eq!(shop.states(), "d-1=0 d-2=0 f-1=1 f-2=1 n-1=0 n-2=2 ");
    let audit: StreamRangeReply = shop.query(cmd("XRANGE").arg(shop.key("audit")).arg("-").arg("+"));
    let noted = audit.ids.iter().map(|entry| {
        ["actor", "action", "target", "rows"].map(|field| entry.get::<String>(field).unwrap()).join(" ")
    });
    assert_eq!(
        noted.collect::<Vec<_>>(),
        ["cli:ann replay status=DEAD event_type=OrderPlaced 2", "cli:ann discard status=DEAD id=d-3 1"]
    );
    shop.end();
}

// T13
#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn old_events_are_purged_and_archived() {
    let shop = RedisOutbox::seeded();
    assert_snapshot!(shop.run("purge --done --older-than 7d --yes"), @"
    2 events deleted
    --- exit code 0
    ");
    assert_snapshot!(shop.run("purge --dead --older-than 7d --archive --yes --output json"), @r#"
    {"action":"purge","dry_run":false,"matched":3,"exact":true,"changed":3,"remaining":null,"unchanged":[]}
    --- exit code 0
    "#);
    assert_eq!(shop.states(), "d-1=4 d-2=4 d-3=4 n-1=0 n-2=2 ");
    assert_eq!(shop.json("event show d-1")["status"], "ARCHIVED");
    shop.end();
}

#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn there_is_nothing_to_migrate() {
    let shop = RedisOutbox::empty();
    for args in ["migrate apply", "migrate apply --adopt", "migrate check", "migrate print"] {
        let output = shop.run(args);
        let nothing = (0, "nothing to migrate: an outbox in Redis has no schema\n", "");
        assert_eq!((output.code, output.stdout.as_str(), output.stderr.as_str()), nothing, "{args}");
    }
    assert_snapshot!(shop.run("migrate apply --output json"), @r#"
    {"table":"shop","applied":[]}
    --- exit code 0
    "#);
    assert_snapshot!(shop.run("migrate check --output json"), @r#"
    {"table":"shop","state":"current","version":null,"latest":null,"advice":null}
    --- exit code 0
    "#);
    assert_snapshot!(shop.run("migrate print --output json"), @r#"
    {"sql":""}
    --- exit code 0
    "#);
    assert_eq!(
        shop.query::<u8>(cmd("EXISTS").arg(shop.key("settings"))),
        0,
        "who only looks decides nothing"
    );
}

#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn cluster_is_counted_as_a_whole() {
    let nodes = variable("POSTHASTE_TEST_REDIS_CLUSTER_URL");
    let shop = RedisOutbox::empty();
    shop.write(RedisStore::cluster(nodes.split(',')).unwrap().shards(5), 20);
    let cluster = shop.with_url(format!("redis+cluster://{}/", nodes.replace("redis://", "")));
    let status = cluster.json("status");
    assert_eq!(status["pending"]["new"], 20, "{status}");
    let node = shop.with_url(nodes.split(',').next().unwrap().to_owned());
    assert_snapshot!(node.run("status"), @"
    --- stderr
    error: the outbox in redis://db.example cannot be opened
      because: the Redis server db.example is a node of a cluster: name its nodes with `RedisStore::cluster`, or on the command line as redis+cluster://host:port,host:port
    --- exit code 1
    ");
    nodes.split(',').for_each(|node| shop.with_url(node.to_owned()).end());
}
