//! Behaviour that only Redis has: events before their first claim, no schema, and clusters.

use insta::assert_snapshot;
use posthaste::Event;
use posthaste_redis::RedisStore;
use posthaste_testkit::variable;
use redis::cmd;

use crate::command_output::CommandOutput;
use crate::shop::Shop;
use crate::shop::StoreKind::{Redis, Sqlite};

fn events(count: usize) -> impl Iterator<Item = Event> {
    (0..count).map(|_| Event::json("OrderPlaced", &1).expect("an event"))
}

/// While no engine runs, an operator wants to know how much is pending.
#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn events_before_their_first_claim_are_counted() {
    let shop = Shop::empty(Redis);
    shop.write_to(RedisStore::builder(shop.url()).unwrap(), events(3));
    let status = shop.json("status");
    assert_eq!((&status["pending"]["new"], &status["pending"]["due"]), (&3.into(), &3.into()), "{status}");
}

#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn outbox_without_a_name_has_the_default_name() {
    let shop = Shop::bare(Sqlite);
    let output = shop.command("status").env("POSTHASTE_STORE", variable("POSTHASTE_TEST_REDIS_URL")).output();
    let output = CommandOutput::of(output.unwrap());
    assert!(output.stdout.starts_with("outbox in redis://"), "{output}");
}

#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn outbox_in_redis_has_nothing_to_migrate() {
    let shop = Shop::empty(Redis);
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
        shop.redis::<u8>(cmd("EXISTS").arg(shop.key("settings"))),
        0,
        "reading commands store no settings"
    );
}

#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn cluster_is_counted_as_a_whole() {
    let nodes = variable("POSTHASTE_TEST_REDIS_CLUSTER_URL");
    let shop = Shop::empty(Redis);
    shop.write_to(RedisStore::cluster(nodes.split(',')).unwrap().shards(5), events(20));
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
    nodes.split(',').for_each(|node| shop.with_url(node.to_owned()).remove());
}
