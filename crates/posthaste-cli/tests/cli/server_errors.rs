//! Errors of servers: one that is down, refuses the login or lacks the outbox. The exit code is 1, and the message has
//! advice and no password.

use posthaste_testkit::server::{MariaDbServer, RedisServer};
use redis::cmd;

use crate::binary::unused_address;
use crate::on_stores::on_stores;
use crate::shop::{Shop, StoreKind, block_on};

/// A wrong password, which must not be in any output.
const SENTINEL: &str = "sEnt1nel";

/// The password of the user `with_password` of MariaDB, and of the Redis of these tests. It must not be in any output
/// either.
const CORRECT_PASSWORD: &str = "the-right-one";

/// Commands that open a store.
const COMMANDS: [&str; 14] = [
    "status",
    "doctor",
    "status --watch --count 1",
    "event list",
    "event show x",
    "dead list",
    "dead replay --all --yes",
    "pause x",
    "resume x",
    "purge --done --older-than 1d --yes",
    "audit",
    "migrate apply",
    "migrate check",
    "migrate print",
];

/// Runs all [`COMMANDS`] with full logging: none prints a password.
fn assert_no_password_is_shown(shop: &Shop) {
    for args in COMMANDS {
        for format in ["text", "json"] {
            let mut command = shop.command(args);
            command.args(["--output", format]).env("RUST_LOG", "trace");
            let output = command.output().expect("the binary starts");
            let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            for password in [SENTINEL, CORRECT_PASSWORD] {
                assert!(!printed.contains(password), "{args} {format}: {printed}");
            }
        }
    }
}

on_stores!([postgres, mysql] [
    wrong_password,
    correct_password_is_not_printed_either,
    server_is_down,
    database_is_missing,
    table_is_missing,
    table_of_another_program
]);

/// Names of the store in messages.
struct Words {
    scheme: &'static str,
    outbox: &'static str,
    /// The URL of the store, as messages show it.
    url: &'static str,
    schema_option: &'static str,
}

fn words(kind: StoreKind) -> Words {
    match kind {
        StoreKind::Postgres => Words {
            scheme: "postgres",
            outbox: "shop.outbox_event",
            url: "postgres://***@db.example/shop",
            schema_option: " --schema shop",
        },
        _ => Words {
            scheme: "mysql",
            outbox: "outbox_event",
            url: "mysql://***@db.example/shop",
            schema_option: "",
        },
    }
}

fn wrong_password(kind: StoreKind) {
    let Words { scheme, outbox, url, .. } = words(kind);
    let shop = Shop::bare(kind);
    let refused = shop.with_url(format!("{scheme}://with_password:{SENTINEL}@{}", shop.address()));
    let (database, reason) = match kind {
        StoreKind::Postgres => ("postgres", r#"password authentication failed for user "with_password""#),
        _ => {
            ("shop", "1045 (28000): Access denied for user 'with_password'@'localhost' (using password: YES)")
        }
    };
    let causes = [
        &*format!(
            "the database {database} on db.example refused the user or the password: correct them in the URL"
        ),
        &*format!("error returned from database: {reason}"),
    ];
    refused.run("status").assert_error(&format!("the outbox in {url} cannot be opened"), &causes);
    let not_migrated = format!("the outbox table {outbox} in {url} cannot be migrated");
    refused.run("migrate apply").assert_error(&not_migrated, &causes);
    assert_no_password_is_shown(&refused);
}

fn correct_password_is_not_printed_either(kind: StoreKind) {
    let shop = Shop::empty(kind);
    let known = shop.with_url(match kind {
        StoreKind::Postgres => {
            format!("postgresql://postgres:{SENTINEL}@{}?password={SENTINEL}", shop.address())
        }
        _ => format!("mysql://with_password:{CORRECT_PASSWORD}@{}", shop.address()),
    });
    assert_eq!(known.run("status").code, 0);
    assert_no_password_is_shown(&known);
}

fn server_is_down(kind: StoreKind) {
    let Words { scheme, outbox, url, .. } = words(kind);
    let down = Shop::bare(kind).with_url(format!("{scheme}://ann:{SENTINEL}@{}/shop", unused_address()));
    let causes = [
        "the database shop on db.example cannot be reached: check that the server runs, and that host and \
         port are correct",
        "error communicating with database: Connection refused (os error 111)",
    ];
    down.run("status").assert_error(&format!("the outbox in {url} cannot be opened"), &causes);
    let not_read = format!("the outbox table {outbox} in {url} cannot be read");
    down.run("migrate check").assert_error(&not_read, &causes);
    assert_no_password_is_shown(&down);
}

fn database_is_missing(kind: StoreKind) {
    let Words { scheme, url, .. } = words(kind);
    let shop = Shop::bare(kind);
    let (user, reason) = match kind {
        StoreKind::Postgres => ("postgres", r#"database "no_such_database" does not exist"#),
        _ => ("root", "1049 (42000): Unknown database 'no_such_database'"),
    };
    let missing = shop.with_url(format!("{scheme}://{user}@{}/no_such_database", shop.host()));
    missing.run("status").assert_error(
        &format!("the outbox in {url} cannot be opened"),
        &[
            "there is no database no_such_database on db.example: create it with CREATE DATABASE, or correct the URL",
            &format!("error returned from database: {reason}"),
        ],
    );
}

fn table_is_missing(kind: StoreKind) {
    let Words { url, schema_option, .. } = words(kind);
    let shop = Shop::bare(kind);
    for (args, table) in [("dead list --table billing", "billing"), ("status", "outbox_event")] {
        let cause = format!(
            "there is no outbox table {table}: create it with `posthaste migrate apply --table {table}{schema_option}`, or \
             with `.migrate()` on the store's builder"
        );
        shop.run(args).assert_error(&format!("the outbox in {url} cannot be opened"), &[&cause]);
    }
}

fn table_of_another_program(kind: StoreKind) {
    let shop = Shop::bare(kind);
    shop.sql("CREATE TABLE outbox_event (id integer)");
    let output = shop.run("migrate apply --adopt");
    assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{output}");
    assert!(output.stderr.contains("choose another table name for the outbox"), "{output}");
}

#[test]
#[ignore = "needs MariaDB: cargo xtask test"]
fn server_is_too_old() {
    let shop = Shop::bare(StoreKind::MySql);
    for (version, args) in [("10.3.39-MariaDB", "migrate apply"), ("8.0.12", "migrate check")] {
        let server = block_on(MariaDbServer::of_version(version));
        let old = shop.with_url(format!("mysql://root@127.0.0.1:{}/information_schema", server.port()));
        let output = old.run(args);
        assert_eq!(output.code, 1, "{output}");
        assert!(output.stderr.contains(&format!("has version {version}")), "{output}");
        assert!(output.stderr.contains("upgrade it"), "{output}");
    }
}

#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn wrong_password_of_redis() {
    let server = block_on(RedisServer::new(&["--requirepass", CORRECT_PASSWORD]).started());
    let with_password = |password: &str| {
        let url = format!("redis://:{password}@127.0.0.1:{}", server.port());
        Shop::bare(StoreKind::Redis).with_url(url)
    };
    let refused = with_password(SENTINEL);
    for args in ["status", "migrate apply"] {
        refused.run(args).assert_error(
            "the outbox in redis://***@db.example cannot be opened",
            &[
                "the Redis server db.example refused the user or the password: correct them in the URL",
                "Password authentication failed - AuthenticationFailed",
            ],
        );
    }
    assert_no_password_is_shown(&refused);
    let known = with_password(CORRECT_PASSWORD);
    assert_eq!(known.run("status").code, 0);
    assert_no_password_is_shown(&known);
}

#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn redis_is_down() {
    let shop = Shop::bare(StoreKind::Redis);
    for scheme in ["redis", "rediss"] {
        let down = shop.with_url(format!("{scheme}://ann:{SENTINEL}@{}", unused_address()));
        let output = down.run("status");
        assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{output}");
        let advice = "cannot be reached: check that it runs and that host and port are right";
        assert!(output.stderr.contains(advice), "{output}");
        assert_no_password_is_shown(&down);
    }
}

#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn redis_cluster_is_down() {
    let shop = Shop::bare(StoreKind::Redis);
    let down = shop.with_url(format!("redis+cluster://ann:{SENTINEL}@{}", unused_address()));
    down.run("status").assert_error(
        "the outbox in redis+cluster://***@db.example cannot be opened",
        &[
            "the Redis server db.example cannot be reached: check that it runs and that host and port are right",
            "Failed to create initial connections - Io: Connection refused (os error 111)",
        ],
    );
    assert_no_password_is_shown(&down);
}

#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn key_of_another_program() {
    let shop = Shop::empty(StoreKind::Redis);
    shop.redis::<String>(cmd("SET").arg(shop.key("entries")).arg("mine"));
    for args in ["status", "migrate check"] {
        shop.run(args).assert_error(
            "the outbox in redis://db.example/ cannot be opened",
            &["the key {shop:0}:entries holds a string, Posthaste needs a hash there: rename or delete it, or choose \
               another name for the outbox"],
        );
    }
}

#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn options_of_other_stores_are_refused() {
    let shop = Shop::empty(StoreKind::Redis);
    for args in ["status --schema billing", "status --pgbouncer"] {
        let output = shop.run(args);
        assert_eq!(output.code, 2, "{output}");
    }
}
