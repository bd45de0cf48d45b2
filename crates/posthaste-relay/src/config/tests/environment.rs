//! Variables and secret files: interpolation in the file, and overrides.

use super::*;

#[test]
fn secrets_come_from_variables_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, "p@ss/word\n").unwrap();
    let text = SHOP.replace("shop@db/shop", &format!("shop:${{file:{}}}@${{HOST}}/shop", file.display()));
    let config = good(&text, [("HOST", "db:5432")]);
    assert_eq!(config.outboxes[0].store.url.expose(), "postgres://shop:p%40ss%2Fword@db:5432/shop");
    let whole = SHOP.replace("postgres://shop@db/shop", "${STORE}");
    let config = good(&whole, [("STORE", "sqlite:x.db")]);
    assert_eq!(config.outboxes[0].store.url.expose(), "sqlite:x.db");
    let reported = refused(&whole, []);
    assert_eq!(
        reported,
        ["3:9 outbox.shop.store: the variable STORE is not set: set it, or write $${ for the text ${"]
    );
    let reported = refused(&SHOP.replace("postgres://shop@db/shop", "${file:/not/there}"), []);
    assert!(
        reported[0].starts_with("3:9 outbox.shop.store: the file /not/there cannot be read"),
        "{reported:?}"
    );
}

#[test]
fn environment_overrides_the_file() {
    let text = format!(
        "{SHOP}[[outbox.shop.route]]\naggregate = \"Order\"\nname = \"my-orders\"\npublish = \"stdout:\"\n"
    );
    let config = good(
        &text,
        [
            ("POSTHASTE__ADMIN__LISTEN", "127.0.0.1:1"),
            ("posthaste__outbox__SHOP__workers", "7"),
            ("POSTHASTE__OUTBOX__SHOP__STORE", "sqlite:other.db"),
            ("POSTHASTE__OUTBOX__SHOP__POLLER__INTERVAL", "9s"),
            ("POSTHASTE__OUTBOX__SHOP__ROUTE__MY_ORDERS__RATE", "50"),
            ("POSTHASTE__OUTBOX__SHOP__ROUTE__0__BATCH", "3"),
            ("POSTHASTE__ADMIN__TOKENS__ANN__ROLE", "viewer"),
            ("POSTHASTE__ADMIN__TOKENS__ANN__TOKEN", "1234567890123456"),
            ("POSTHASTE_STORE", "not an override"),
        ],
    );
    assert_eq!(config.admin.listen, Some("127.0.0.1:1".parse().unwrap()));
    assert_eq!(config.admin.tokens[0].secret.expose(), "1234567890123456");
    let outbox = &config.outboxes[0];
    assert_eq!(outbox.store.url.expose(), "sqlite:other.db");
    assert_eq!((outbox.config.workers, outbox.config.poller.interval.as_secs()), (Some(7), 9));
    assert_eq!((outbox.routes[0].batch, outbox.routes[1].rate), (Some(3), Some(50.0)));
}

#[test]
fn override_may_come_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store");
    std::fs::write(&file, "sqlite:from-file.db\n").unwrap();
    let path = file.display().to_string();
    let config = good(SHOP, [("POSTHASTE__OUTBOX__SHOP__STORE_FILE", &path)]);
    assert_eq!(config.outboxes[0].store.url.expose(), "sqlite:from-file.db");
    let reported = refused(
        SHOP,
        [("POSTHASTE__OUTBOX__SHOP__STORE_FILE", &path), ("POSTHASTE__OUTBOX__SHOP__STORE", "x")],
    );
    assert!(
        reported.iter().any(|reported| reported.contains("is set by two variables: unset one of them")),
        "{reported:?}"
    );
}

#[test]
fn override_that_matches_no_setting_is_a_problem() {
    for (variable, reported) in [
        ("POSTHASTE__ADMN__LISTEN", "admn: no such setting: did you mean `admin`?"),
        ("POSTHASTE__ADMIN__LISTN", "admin.listn: no such setting: did you mean `listen`?"),
        (
            "POSTHASTE__OUTBOX__SHPO__STORE",
            "outbox.shpo.store: matches no setting: there is no outbox `shpo`: did you mean `shop`?",
        ),
        ("POSTHASTE__OUTBOX__SHOP__WORKRS", "outbox.shop.workrs: no such setting: did you mean `workers`?"),
        (
            "POSTHASTE__OUTBOX__SHOP__ROUTE__ORDERS__RATE",
            "outbox.shop.route.orders.rate: matches no setting: there is no route `orders`: there are *, also by their number from 0",
        ),
        (
            "POSTHASTE__OUTBOX__SHOP__STORE__URL",
            "outbox.shop.store.url: matches no setting: `outbox.shop.store` is no table",
        ),
        (
            "POSTHASTE__OUTBOX____STORE",
            "outbox..store: has an empty part: write two underscores between two parts",
        ),
        ("POSTHASTE__", ": has an empty part: write two underscores between two parts"),
    ] {
        assert_eq!(refused(SHOP, [(variable, "1")]), [format!("{variable} {reported}")]);
    }
}
