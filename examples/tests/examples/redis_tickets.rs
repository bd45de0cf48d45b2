//! Runs the ticket service on Redis as a process.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use posthaste_testkit::variable;

fn run(variables: &[(&str, String)]) -> Output {
    let variables = variables.iter().map(|(name, value)| (*name, value.as_str()));
    Command::new(env!("CARGO_BIN_EXE_redis_tickets"))
        .env_clear()
        .envs(variables)
        .output()
        .expect("the program runs")
}

#[test]
fn program_without_a_server_names_the_variable_it_needs() {
    let output = run(&[]);
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("REDIS_URL is not set: name a Redis server"), "{error}");
}

#[test]
#[ignore = "needs Redis: cargo xtask test"]
fn every_ticket_ends_with_one_event() {
    let output = run(&[("REDIS_URL", variable("POSTHASTE_TEST_REDIS_URL"))]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8_lossy(&output.stdout);
    let mut tickets: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (text, ticket) in printed.lines().filter_map(|line| line.rsplit_once(' ')) {
        tickets.entry(ticket).or_default().push(text);
    }
    let mut tickets: Vec<Vec<&str>> = tickets.into_values().collect();
    tickets.iter_mut().for_each(|texts| texts.sort_unstable());
    tickets.sort();
    let expired = vec!["TicketExpired", "TicketMinted", "too late to revoke"];
    let revoked = vec!["TicketMinted", "TicketRevoked", "revoked"];
    assert_eq!(tickets, [expired, revoked], "{printed}");
}
