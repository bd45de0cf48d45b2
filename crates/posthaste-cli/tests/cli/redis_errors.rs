//! A Redis that is not there, refuses, or holds something else: exit code 1, a way out, and no password.

use std::net::TcpListener;

use insta::assert_snapshot;
use posthaste_testkit::server::RedisServer;
use redis::cmd;

use crate::redis_outbox::RedisOutbox;
use crate::servers::assert_no_password;
use crate::sqlite_outbox::block_on;

/// Whatever is said, this is not in it.
const SENTINEL: &str = "sEnt1nel";

/// Nor this, which is the password of the server.
const CORRECT_PASSWORD: &str = "the-right-one";

fn assert_no_password_is_shown(shop: &RedisOutbox) {
    assert_no_password(&[SENTINEL, CORRECT_PASSWORD], |args| shop.command(args));
}

#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn wrong_password() {
    let server = block_on(RedisServer::new(&["--requirepass", CORRECT_PASSWORD]).started());
    let refused = RedisOutbox::empty().with_url(format!("redis://:{SENTINEL}@127.0.0.1:{}", server.port()));
    assert_snapshot!(refused.run("status"), @"
    --- stderr
    error: the outbox in redis://***@db.example cannot be opened
      because: the Redis server db.example refused the user or the password: correct them in the URL
      because: Password authentication failed - AuthenticationFailed
    --- exit code 1
    ");
    assert_snapshot!(refused.run("migrate apply"), @"
    --- stderr
    error: the outbox in redis://***@db.example cannot be opened
      because: the Redis server db.example refused the user or the password: correct them in the URL
      because: Password authentication failed - AuthenticationFailed
    --- exit code 1
    ");
    assert_no_password_is_shown(&refused);
    let known = refused.with_url(format!("redis://:{CORRECT_PASSWORD}@127.0.0.1:{}", server.port()));
    assert_eq!(known.run("status").code, 0);
    assert_no_password_is_shown(&known);
}

#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn server_is_down() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for scheme in ["redis", "rediss"] {
        let nobody = RedisOutbox::empty().with_url(format!("{scheme}://ann:{SENTINEL}@{free}"));
        let output = nobody.run("status");
        assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{output}");
        let way_out = "cannot be reached: see that it runs, and that host and port are right";
        assert!(output.stderr.contains(way_out), "{output}");
        assert_no_password_is_shown(&nobody);
    }
}

#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn cluster_is_down() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = RedisOutbox::empty().with_url(format!("redis+cluster://ann:{SENTINEL}@{free}"));
    assert_snapshot!(nobody.run("status"), @"
    --- stderr
    error: the outbox in redis+cluster://***@db.example cannot be opened
      because: the Redis server db.example cannot be reached: see that it runs, and that host and port are right
      because: Failed to create initial connections - Io: Connection refused (os error 111)
    --- exit code 1
    ");
    assert_no_password_is_shown(&nobody);
}

#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn key_of_somebody_else() {
    let shop = RedisOutbox::empty();
    shop.query::<String>(cmd("SET").arg(shop.key("entries")).arg("mine"));
    assert_snapshot!(shop.run("status"), @"
    --- stderr
    error: the outbox in redis://db.example/ cannot be opened
      because: the key {shop:0}:entries holds a string, Posthaste needs a hash there: rename or delete it, or choose another name for the outbox
    --- exit code 1
    ");
    assert_eq!(shop.run("migrate check").stderr, shop.run("status").stderr);
    assert_eq!(shop.run("migrate check").code, 1);
    shop.end();
}

#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn options_of_other_stores_are_refused() {
    let shop = RedisOutbox::empty();
    for args in ["status --schema billing", "status --pgbouncer"] {
        let output = shop.run(args);
        assert_eq!(output.code, 2, "{output}");
    }
}
