//! Secrets: no problem and no printed configuration contains one.

use super::*;

#[test]
fn no_problem_contains_a_secret_of_the_file() {
    for text in [
        "store = \"postgres://u:SECRET@db:port/shop\"",
        "store = \"postgres://u:SECRET@db/shop",
        "store = 'postgres://u:SECRET@db/shop\"\"",
        "store = postgres://u:SECRET@db/shop",
        "store = \"\"\"\nSECRET\nSECRET==\nstore=SECRET\n",
        "store = \"SECRET\" \"SECRET\"",
        "stroe = \"postgres://u:SECRET@db/shop\" # SECRET",
        "store = [\"SECRET\"]",
        "store = { url = \"SECRET\" }",
        "store.url = \"SECRET\"",
        "workers = \"postgres://u:SECRET@db/shop\"",
        "workers = \"${PW}\"",
        "mode = \"${PW}\"",
        "drain = \"${PW}\"",
        "drain = 5 # SECRET",
        "table = \"${PW}\"",
        "password = \"SECRET\"",
        "password = \"SECRET\" = 5",
        "x = { store = \"SECRET\", y = [\"SECRET\", { z = \"SECRET\" }] }",
        "[[outbox.shop.route]]\npublish = \"kafka://u:SECRET@h:x/?SECRET=SECRET\"",
        "[[outbox.shop.route]]\npublish = \"SECRET\"",
        "[[outbox.shop.route]]\npublish = \"https://u:SECRET@/?SECRET\"\nformat = \"SECRET@x\"",
        "[[outbox.shop.route]]\npublish = { a = \"amqp://u:SECRET@h/#\", b = 5 }\nname = \"${PW}\"",
        "[[outbox.shop.route]]\nrate = \"${PW}\"\nevent = \"\"",
        "[[outbox.shop.route]]\n[outbox.shop.route.webhook]\nsigning_key = \"SECRET\"",
        "[[outbox.shop.route]]\n[outbox.shop.route.webhook]\nprevious_signing_key = \"${PW}\"",
        "[[outbox.shop.route]]\n[outbox.shop.route.webhook]\nsigning_kye = \"SECRET\"",
        "[[outbox.shop.route]]\n[outbox.shop.route.webhook]\nheaders = \"SECRET\"",
        "[[outbox.shop.route]]\n[outbox.shop.route.webhook]\nheaders = { \"SECRET x\" = \"X-Key\" }",
        "[[outbox.shop.route]]\n[outbox.shop.route.webhook]\nheaders = { \"SECRET\" = 5, Host = \"SECRET\" }",
        "[[outbox.shop.route]]\n[outbox.shop.route.webhook.headers]\nX-Key = \"SECRET\\u0007\"",
        "[[outbox.shop.route]]\n[outbox.shop.route.webhook.headers]\nX-Key = \"SECRET",
        "[[outbox.shop.route]]\n[outbox.shop.route.webhook]\nca = \"${PW}\"\nallow_networks = [\"${PW}\"]",
        "[[outbox.shop.route]]\nwebhook = \"SECRET\"",
        "[admin.tokens.a]\nrole = \"SECRET\"\ntoken = \"x\"",
        "[admin.tokens.a]\ntoken = \"SECRET",
        "[admin.tokens]\n\"SECRET\" = \"operator\"",
        "[admin]\ntokens = [\"SECRET\"]",
        "[admin]\ntokens = \"SECRET\"",
        "[admin]\ntoken = \"SECRET\"",
        "[admin]\nlisten = \"${PW}\"\nready_lag = \"${PW}\"",
        "[log]\nlevel = \"${PW}!=[\"\nformat = \"${PW}\"",
        "[outbox.two]\nstore = \"mysql://u:${PW}@db\"",
    ] {
        let text = format!("[outbox.shop]\n{}\n", text.replace("SECRET", SECRET));
        let problems = read(&text, [("PW", SECRET)]).expect_err(&text);
        let reported =
            format!("{problems} {problems:?} {}", serde_json::to_string(&problems.problems).unwrap());
        assert!(!reported.contains(SECRET), "{text}\n{reported}");
    }
}

#[test]
fn no_problem_contains_a_secret_of_the_environment() {
    for variable in [
        "POSTHASTE__ADMIN__LISTEN",
        "POSTHASTE__ADMIN__TOKENS__ANN",
        "POSTHASTE__ADMIN__TOKENS__ANN__ROLE",
        "POSTHASTE__LOG__FORMAT",
        "POSTHASTE__OUTBOX__SHOP",
        "POSTHASTE__OUTBOX__SHOP__STORE",
        "POSTHASTE__OUTBOX__SHOP__STROE",
        "POSTHASTE__OUTBOX__SHOP__WORKERS",
        "POSTHASTE__OUTBOX__SHOP__MODE",
        "POSTHASTE__OUTBOX__SHOP__DRAIN",
        "POSTHASTE__OUTBOX__SHOP__METRICS__PREFIX",
        "POSTHASTE__OUTBOX__SHOP__ROUTE",
        "POSTHASTE__OUTBOX__SHOP__ROUTE__0__PUBLISH",
        "POSTHASTE__OUTBOX__SHOP__ROUTE__0__RATE",
        "POSTHASTE__OUTBOX__SHOP__ROUTE__0__WEBHOOK",
        "POSTHASTE__OUTBOX__SHOP__ROUTE__0__WEBHOOK__SIGNING_KEY",
        "POSTHASTE__OUTBOX__SHOP__ROUTE__0__WEBHOOK__HEADERS",
        "POSTHASTE__OUTBOX__SHOP__ROUTE__0__WEBHOOK__CA",
        "POSTHASTE__NOWHERE",
    ] {
        for value in [SECRET.to_owned(), format!("x://u:{SECRET}@h"), format!("[\"{SECRET}\"]")] {
            let problems = read(SHOP, [(variable, &value)]).expect_err(variable);
            let reported = format!("{problems} {problems:?}");
            assert!(
                !reported.contains(SECRET) && reported.contains(variable),
                "{variable}={value}\n{reported}"
            );
        }
    }
}

#[test]
fn printed_configuration_contains_no_secret() {
    let text = format!(
        "{}[admin.tokens.a]\nrole = \"viewer\"\ntoken = \"{SECRET}-and-more\"\n",
        SHOP.replace("shop@db/shop", &format!("u:{SECRET}@db/shop?password={SECRET}"))
            .replace("stdout:", &format!("https://u:{SECRET}@h/{SECRET}?stream={SECRET}"))
    );
    let config = good(&text, []);
    assert!(!format!("{config:?}").contains(SECRET), "{config:?}");
    let shown = toml::to_string(&shown(&config)).unwrap();
    assert!(!shown.contains(SECRET), "{shown}");
}
