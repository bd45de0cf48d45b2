//! `posthaste status --watch`.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::binary::signal;
use crate::shop::{Shop, StoreKind};

const WATCH_TWICE: &str = "status --watch --count 2 --interval 100ms";

#[test]
fn every_reading_is_a_block_of_text() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    let output = shop.run(WATCH_TWICE);
    // Without the time of each reading.
    let lines = output.stdout.lines().map(|line| line.split(" at 20").next().unwrap_or(line));
    let looks = lines.map(|line| format!("{line}\n")).collect::<String>();
    let status = shop.run("status").stdout;
    let (counts, rest) = status.split_once("\n\noldest pending").expect("counts, and what follows them");
    let look = |rates: &str| format!("{counts}\n\n{rates}\n\noldest pending{rest}");
    let first = look("per second  after the next reading");
    let second = look(
        "backlog per second    +0.0  more or fewer pending rows\n\
         delivered per second   0.0  at least: more DONE or archived rows\n\
         written per second     0.0  at least: more rows in all",
    );
    assert_eq!((output.code, looks), (0, format!("{first}\n{second}")));
}

#[test]
fn rates_show_the_changes_between_two_readings() {
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
    // The two statements may fall into different readings.
    let (mut backlog, mut delivered, mut written) = (0.0, 0.0, 0.0);
    while written < 1.5 {
        let rates = next_sample()["rates"].clone();
        let seconds = rates["seconds"].as_f64().unwrap();
        backlog += seconds * rates["backlog_per_second"].as_f64().unwrap();
        delivered += seconds * rates["delivered_per_second"].as_f64().unwrap();
        written += seconds * rates["written_per_second"].as_f64().unwrap();
    }
    assert_eq!([backlog, delivered, written].map(f64::round), [1.0, 1.0, 2.0]);

    signal(&watch, "INT");
    // The program needs a reader for what it may still print.
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
    assert_eq!(error, "error: the outbox cannot be read");
    shop.sql("ALTER TABLE away RENAME TO outbox_event; DELETE FROM outbox_event WHERE status = 3");
    assert!(
        samples.map(Result::unwrap).any(|next_sample| next_sample.contains(r#""dead":0"#)),
        "it continues"
    );
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[test]
fn failed_last_reading_is_the_exit_code() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    shop.sql("DROP TABLE outbox_event_control");
    let output = shop.run("status --watch --count 1");
    assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{output}");
}
