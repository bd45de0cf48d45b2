//! Wrong usage: exit code 2, and what to type instead.

use insta::assert_snapshot;

use crate::command_output::CommandOutput;
use crate::shop::{Shop, StoreKind};

fn refused(args: &str) -> String {
    let output = Shop::bare(StoreKind::Sqlite).run(args);
    assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{args}: {output}");
    output.stderr
}

#[test]
fn missing_store_is_wrong_usage() {
    let shop = Shop::bare(StoreKind::Sqlite);
    let output = shop.command("status").env_remove("POSTHASTE_STORE").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.starts_with("error: the store is missing: give --store URL"), "{message}");
}

#[test]
fn unknown_store_is_refused_without_its_password() {
    assert_snapshot!(refused("status --store oracle://ann:sEcret@db.example/shop"), @r#"error: unknown store scheme "oracle": use one of postgres://user@host/database, mysql://user@host/database, redis://host:port/0, redis+cluster://host:port,host:port/, sqlite:///path/to/file.db or sqlite:file.db"#);
    assert_snapshot!(refused("status --store ann:sEcret@db.example"), @r#"error: unknown store scheme "ann": use one of postgres://user@host/database, mysql://user@host/database, redis://host:port/0, redis+cluster://host:port,host:port/, sqlite:///path/to/file.db or sqlite:file.db"#);
    assert_snapshot!(refused("status --store shop.db"), @r#"error: "shop.db" is not a store URL: write postgres://user@host/database, mysql://user@host/database, redis://host:port/0, redis+cluster://host:port,host:port/, sqlite:///path/to/file.db or sqlite:file.db"#);
    assert_snapshot!(refused("status --store sqlite:shop.db?mode=odd"), @r#"error: the store URL cannot be read: error with configuration: unknown value "odd" for `mode`"#);
    assert_snapshot!(refused("status --store sqlite:"), @"error: the store URL names no file: write postgres://user@host/database, mysql://user@host/database, redis://host:port/0, redis+cluster://host:port,host:port/, sqlite:///path/to/file.db or sqlite:file.db");
}

#[test]
fn postgres_url_that_would_be_misread_is_refused_without_its_password() {
    assert_snapshot!(refused("status --store postgres:ann:sEcret@db.example/shop"), @"error: a PostgreSQL URL needs // after its scheme: write postgres://user@host/database, mysql://user@host/database, redis://host:port/0, redis+cluster://host:port,host:port/, sqlite:///path/to/file.db or sqlite:file.db");
    assert_snapshot!(refused("status --store postgres://ann:12/sEcret@db.example/shop"), @"error: the store URL cannot be read: in its user and password write # as %23, / as %2F, ? as %3F and @ as %40");
    assert_snapshot!(refused("status --store postgres://ann:sEcret@db.example:x/shop"), @"error: the store URL cannot be read: error with configuration: invalid port number");
    assert_snapshot!(refused("status --store postgres://db.example/shop?pasword=sEcret"), @"error: the store URL has a parameter that is not supported in PostgreSQL URLs; supported parameters: sslmode, sslrootcert, sslcert, sslkey, host, hostaddr, port, dbname, user, password, application_name, options");
}

#[test]
fn mysql_url_that_would_be_misread_is_refused_without_its_password() {
    assert_snapshot!(refused("status --store mysql:ann:sEcret@db.example/shop"), @"error: a MySQL URL needs // after its scheme: write postgres://user@host/database, mysql://user@host/database, redis://host:port/0, redis+cluster://host:port,host:port/, sqlite:///path/to/file.db or sqlite:file.db");
    assert_snapshot!(refused("status --store mariadb://ann:12/sEcret@db.example/shop"), @"error: the store URL cannot be read: in its user and password write # as %23, / as %2F, ? as %3F and @ as %40");
    assert_snapshot!(refused("status --store mysql://ann:sEcret@db.example:x/shop"), @"error: the store URL cannot be read: error with configuration: invalid port number");
    assert_snapshot!(refused("status --store mysql://ann:sEcret@db.example"), @"error: the store URL names no database: write postgres://user@host/database, mysql://user@host/database, redis://host:port/0, redis+cluster://host:port,host:port/, sqlite:///path/to/file.db or sqlite:file.db");
    assert_snapshot!(refused("status --store mysql://db.example/shop?pasword=sEcret"), @"error: the store URL has a parameter that is not supported in MySQL URLs; supported parameters: ssl-mode, ssl-ca, ssl-cert, ssl-key, socket");
    assert_snapshot!(refused("status --store mysql://ann:sEcret@db.example/shop?ssl-mode=odd"), @r#"error: the store URL cannot be read: error with configuration: error with configuration: unknown value "odd" for `ssl_mode`"#);
}

#[test]
fn postgres_options_are_refused_for_other_stores() {
    let mysql = "--store mysql://ann:sEcret@db.example/shop";
    assert_snapshot!(refused(&format!("status --schema billing {mysql}")), @"error: --schema is for PostgreSQL, and on MySQL a schema is a database: leave it out, and name the database in the URL");
    assert_snapshot!(refused(&format!("migrate check --pgbouncer {mysql}")), @"error: --pgbouncer is for PostgreSQL only: leave it out");
    assert_snapshot!(refused("status --schema billing"), @"error: --schema is for PostgreSQL, and this store has no schemas: leave it out");
    assert_snapshot!(refused("migrate check --pgbouncer"), @"error: --pgbouncer is for PostgreSQL only: leave it out");
    refused("status --store postgres://db.example/shop --schema pg_catalog");
}

#[test]
fn misplaced_url_is_repeated_without_its_password() {
    for args in ["status", "event show x", "dead list --limit", "--output", "purge --older-than"] {
        let output = refused(&format!("{args} postgres://ann:sEcret@db.example/shop"));
        assert!(!output.contains("sEcret"), "{output}");
        let output = refused(&format!("{args} postgres://db.example/shop?password=sEcret"));
        assert!(!output.contains("sEcret"), "{output}");
    }
}

#[test]
fn help_never_shows_the_store_of_the_environment() {
    let shop = Shop::bare(StoreKind::Sqlite);
    for args in ["status --help", "purge -h"] {
        let output = shop
            .command(args)
            .env("POSTHASTE_STORE", "postgres://ann:sEcret@db.example/shop")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("POSTHASTE_STORE") && !text.contains("sEcret"), "{text}");
    }
}

#[test]
fn store_in_memory_is_refused() {
    for url in ["memory:", "sqlite::memory:", "sqlite://:memory:", "sqlite:x?mode=memory"] {
        for args in ["status", "dead list", "migrate apply", "migrate check", "migrate print"] {
            let output = refused(&format!("{args} --store {url}"));
            assert!(output.contains("a memory store exists only in the process that created it"), "{output}");
        }
    }
}

#[test]
fn table_name_is_checked_before_anything_else() {
    assert_snapshot!(refused("status --table orders;drop"), @r#"error: --table: "orders;drop" cannot name an outbox table: take a letter or _, then letters, digits and _, at most 48 in all, not beginning with sqlite_"#);
    refused("status --table sqlite_x");
    assert_snapshot!(refused("status --store redis://db.example --table a:b"), @r#"error: --table: "a:b" cannot name an outbox: use 1 to 64 letters, digits, `_`, `-` and `.`"#);
}

#[test]
fn changes_need_a_selection() {
    assert_snapshot!(refused("dead replay"), @"
    error: the following required arguments were not provided:
      <ID|--all>

    Usage: posthaste dead replay <ID|--all>

    For more information, try '--help'.
    ");
    refused("dead replay --type OrderPlaced");
    refused("dead replay d-1 --all");
    refused("dead discard d-1 --type OrderPlaced");
    refused("dead discard --all --yes --dry-run");
    refused("purge --older-than 7d");
    refused("purge --done --dead --older-than 7d");
    refused("purge --done");
    refused("purge --done --older-than yesterday");
    refused("dead list --limit 0");
    refused("dead list --limit 1001");
    refused("dead replay d-1 --canary 1");
    refused("dead replay d-1 --rate 1");
    refused("dead replay --all --rate 0");
    refused("dead replay --all --canary 0");
    refused("dead replay --all --canary-timeout 5s");
    refused("dead discard --all --canary 1");
    refused("event list --status odd");
    refused("event list --limit 0");
    refused("audit --limit 1001");
    refused("pause");
    refused("status --interval 5s");
    refused("status --count 5");
    refused("status --watch --interval 99ms");
    refused("status --watch --count 0");
    refused("doctor --late soon");
    refused("doctor --used 0");
    refused("doctor --store memory:");
    refused("doctor --schema billing");
    refused("doctor --used 101");
    refused("doctor --publish nowhere:");
    refused("doctor --config posthaste.toml");
    refused("doctor --config posthaste.toml --table billing");
    refused("dead list --older-than yesterday");
    refused("dead discard d-1 --older-than 1d");
    refused("migrate apply --store sqlite:shop.db?mode=ro");
}

#[test]
fn route_name_is_checked() {
    for route in ["", "a\nb", &"x".repeat(201)] {
        let output = Shop::bare(StoreKind::Sqlite).run_args("pause", &[route]);
        assert!(output.stderr.contains("1 to 200 characters without control characters"), "{output}");
        assert_eq!(output.code, 2);
    }
}

#[test]
fn help_has_examples_and_version_is_printed() {
    let shop = Shop::bare(StoreKind::Sqlite);
    let help = shop.run("--help");
    assert_eq!(help.code, 0);
    assert!(help.stdout.contains("Examples:\n") && help.stdout.contains("Exit codes:"), "{help}");
    for args in [
        "dead replay --help",
        "dead discard --help",
        "event list --help",
        "pause --help",
        "resume --help",
        "purge --help",
        "status --help",
        "doctor --help",
    ] {
        let help = shop.run(args);
        assert!(help.stdout.contains("Examples:\n") && help.stdout.contains("JSON:"), "{help}");
    }
    for args in ["audit --help", "dead list --help", "event show --help"] {
        assert!(shop.run(args).stdout.contains("JSON:"), "{args}");
    }
    let CommandOutput { code, stdout, .. } = shop.run("--version");
    assert_eq!((code, stdout), (0, format!("posthaste {}\n", env!("CARGO_PKG_VERSION"))));
}
