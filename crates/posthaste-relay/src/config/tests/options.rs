//! Configurations from command-line options alone.

use super::*;

fn flags(store: &str, publish: &[&str]) -> Flags {
    Flags {
        store: Some(store.parse().unwrap()),
        publish: publish.iter().map(|url| url.parse().unwrap()).collect(),
        ..Flags::default()
    }
}

#[test]
fn options_alone_make_one_outbox() {
    let publish = [
        "Order.*=stdout:?format=envelope",
        "Order:Placed@acme-*=stdout:",
        "shop.Order.Placed=stdout:",
        "OrderPlaced=stdout:",
        "stdout:",
    ];
    let flags = Flags { listen: Some("off".to_owned()), migrate: true, ..flags("sqlite:x.db", &publish) };
    let config = Source::Flags(flags)
        .load_with(&Environment::from([("POSTHASTE__OUTBOX__OUTBOX__ROUTE__ORDERPLACED__RATE", "2")]))
        .unwrap();
    assert_eq!(config.admin.listen, None);
    let outbox = &config.outboxes[0];
    assert_eq!((outbox.config.name.as_str(), outbox.migrate), ("outbox", true));
    let route = |route: &RouteConfig| {
        let tenant = route.tenant.clone().unwrap_or_default();
        format!("{} {} {} {tenant}", route.name, route.aggregate, route.event)
    };
    assert_eq!(
        outbox.routes.iter().map(route).collect::<Vec<_>>(),
        [
            "Order.* Order * ",
            "Order.Placed@acme-* Order Placed acme-*",
            "shop.Order.Placed shop.Order Placed ",
            "OrderPlaced * OrderPlaced ",
            "* * * "
        ]
    );
    assert_eq!(outbox.routes[3].rate, Some(2.0));
}

#[test]
fn wrong_options_are_named() {
    let flags = Flags { listen: Some("here".to_owned()), ..flags("oracle:x", &["*=stdout", "=stdout:"]) };
    let problems = Source::Flags(flags).load_with(&Environment::default()).unwrap_err();
    let sources: Vec<&str> = problems.iter().map(|problem| problem.source.as_str()).collect();
    assert_eq!(sources, ["--store", "--listen", "--publish", "--publish"], "{problems}");
}
