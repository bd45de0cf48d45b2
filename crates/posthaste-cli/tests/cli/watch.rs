//! `posthaste status --watch`: sample after sample.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::command_output::CommandOutput;
use crate::shop::{Shop, StoreKind};

const WATCH_TWICE: &str = "status --watch --count 2 --interval 100ms";

fn samples(output: &CommandOutput) -> Vec<Value> {
    output.stdout.lines().map(|line| serde_json::from_str(line).expect("a document per line")).collect()
}

#[test]
fn every_look_is_a_block_of_text() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    let output = shop.run(WATCH_TWICE);
    // Without the time of each look.
    let lines = output.stdout.lines().map(|line| line.split(" at 20").next().unwrap_or(line));
    let looks = lines.map(|line| format!("{line}\n")).collect::<String>();
    let status = shop.run("status").stdout;
    let (counts, rest) = status.split_once("\n\noldest pending").expect("counts, and what follows them");
    let look = |rates: &str| format!("{counts}\n\n{rates}\n\noldest pending{rest}");
    let first = look("per second  after the next look");
    let second = look(
        "backlog per second    +0.0  more or fewer pending rows\n\
         delivered per second   0.0  at least: more DONE or archived rows\n\
         written per second     0.0  at least: more rows in all",
    );
    assert_eq!((output.code, looks), (0, format!("{first}\n{second}")));
}

#[test]
fn every_look_is_a_line_of_json() {
    let output = Shop::seeded(StoreKind::Sqlite).run(&format!("{WATCH_TWICE} --output json"));
    let samples = samples(&output);
    assert_eq!((output.code, samples.len()), (0, 2), "{output}");
    assert_eq!(samples[0]["rates"], Value::Null);
    let rates = &samples[1]["rates"];
    assert!(rates["seconds"].as_f64().unwrap() >= 0.1, "{rates}");
    for rate in ["backlog_per_second", "delivered_per_second", "written_per_second"] {
        assert_eq!(rates[rate], 0.0, "{rate} of {rates}");
    }
}

#[test]
fn rates_say_what_happened_between_two_looks() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    let mut command = shop.command("status --watch --output json --interval 100ms");
    let mut watch = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next_sample = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    next_sample();
    shop.sql(
        "UPDATE outbox_event SET status = 1, done_at = 1577934000000000 WHERE event_id = 'n-1';
         INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('w-1', 'A', '{}'), ('w-2', 'A', '{}')",
    );
    // The two statements may fall on two sides of a look.
    let (mut backlog, mut delivered, mut written) = (0.0, 0.0, 0.0);
    while written < 1.5 {
        let rates = next_sample()["rates"].clone();
        let seconds = rates["seconds"].as_f64().unwrap();
        backlog += seconds * rates["backlog_per_second"].as_f64().unwrap();
        delivered += seconds * rates["delivered_per_second"].as_f64().unwrap();
        written += seconds * rates["written_per_second"].as_f64().unwrap();
    }
    assert_eq!([backlog, delivered, written].map(f64::round), [1.0, 1.0, 2.0]);

    let interrupted = Command::new("kill").args(["-INT", &watch.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    // Whatever it is about to print has to have somewhere to go.
    lines.by_ref().for_each(drop);
    let output = watch.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), output.stderr.as_slice()),
        (Some(0), &b""[..]),
        "Ctrl-C is the way to end it"
    );
}

#[test]
fn error_of_the_store_is_shown_and_tried_again() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    let mut command = shop.command("status --watch --output json --interval 100ms");
    let mut watch = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut samples = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut errors = BufReader::new(watch.stderr.take().unwrap()).lines();
    assert!(samples.next().unwrap().unwrap().contains(r#""dead":3"#));
    shop.sql("ALTER TABLE outbox_event RENAME TO away");
    let error = errors.next().unwrap().unwrap();
    assert_eq!(error, "error: the outbox cannot be looked at");
    shop.sql("ALTER TABLE away RENAME TO outbox_event; DELETE FROM outbox_event WHERE status = 3");
    assert!(samples.map(Result::unwrap).any(|next_sample| next_sample.contains(r#""dead":0"#)), "it goes on");
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[test]
fn last_look_that_fails_is_the_exit_code() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    shop.sql("DROP TABLE outbox_event_control");
    let output = shop.run("status --watch --count 1");
    assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{output}");
}
