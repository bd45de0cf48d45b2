//! Other URLs of the same outbox: the scheme of MariaDB, and PgBouncer in front of PostgreSQL.

use posthaste_testkit::variable;

use crate::shop::{Shop, StoreKind};

#[test]
#[ignore = "needs MariaDB: cargo xtask test"]
fn mariadb_scheme_works_like_the_mysql_scheme() {
    let shop = Shop::seeded(StoreKind::MySql);
    let same = shop.with_url(shop.url().replacen("mysql:", "mariadb:", 1));
    for args in ["migrate check", "status", "dead list", "event show d-2"] {
        let output = same.run(args);
        assert_eq!(output.code, 0, "{args}: {output}");
    }
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
fn everything_works_behind_pgbouncer() {
    let direct = Shop::seeded(StoreKind::Postgres);
    let shop = direct.with_url(variable("POSTHASTE_TEST_PGBOUNCER_URL"));
    for args in ["migrate check", "migrate apply", "status", "dead list", "dead replay d-1", "event show d-2"]
    {
        let output = shop.run(&format!("{args} --pgbouncer"));
        assert_eq!(output.code, 0, "{args}: {output}");
    }
    assert_eq!(shop.run("purge --done --older-than 7d --yes --pgbouncer").stdout, "2 events deleted\n");
}
