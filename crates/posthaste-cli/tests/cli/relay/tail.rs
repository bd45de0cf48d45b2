//! `posthaste tail` follows a running relay.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use super::file_sink::Sink;
use super::process::Relay;
use super::{ids, options};
use crate::binary::posthaste;
use crate::shop::{Shop, StoreKind};

struct TailProcess(Child);

impl TailProcess {
    fn start(relay: &Relay, args: &str) -> Self {
        let mut command = posthaste(&["tail", "--relay", &format!("http://{}", relay.address())]);
        command.args(args.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().expect("the binary starts"))
    }

    fn end(self) -> (Option<i32>, String, String) {
        let output = self.0.wait_with_output().expect("it ends");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    }
}

#[test]
fn tail_shows_what_is_delivered_and_ends_with_the_relay() {
    let (outbox, sink) = (Shop::empty(StoreKind::Sqlite), Sink::new());
    let publish = format!("*={}", sink.url("out"));
    let mut relay = Relay::start(&options(&outbox, &["--publish", &publish]));
    relay.wait_for("delivering");
    let mut all = TailProcess::start(&relay, "--output json");
    let some = TailProcess::start(&relay, "--type Wanted --outcome done --count 2");

    // Events are written until both processes follow: a tail only shows deliveries after it has connected.
    let mut lines = BufReader::new(all.0.stdout.take().expect("a pipe")).lines();
    let (sender, first) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let tailed: Vec<String> =
            lines.by_ref().map_while(Result::ok).inspect(|_| _ = sender.send(())).collect();
        tailed
    });
    let mut written = 0;
    while first.try_recv().is_err() {
        outbox.write_as("Other", &ids(written, 1));
        sink.wait_for(&["out"], &ids(written, 1));
        written += 1;
    }
    let mut some = Some(some);
    let some = loop {
        outbox.write_as("Wanted", &ids(written, 1));
        sink.wait_for(&["out"], &ids(written, 1));
        written += 1;
        if some
            .as_mut()
            .is_some_and(|some| some.0.try_wait().expect("it is a child of this process").is_some())
        {
            break some.take().expect("it ended").end();
        }
    };
    assert_eq!(some.0, Some(0), "{}", some.2);
    assert_eq!(some.1.lines().count(), 2, "{}", some.1);
    assert!(some.1.lines().all(|line| line.contains(" done        Wanted Order/e-")), "{}", some.1);

    relay.stop();
    let (code, _, printed) = all.end();
    assert_eq!((code, printed.trim().lines().last()), (Some(0), Some("the relay stopped")), "{printed}");
    for line in reader.join().expect("a reader") {
        let line: serde_json::Value = serde_json::from_str(&line).expect("a document per line");
        assert_eq!((&line["outcome"], &line["attempt"]), (&"done".into(), &1.into()), "{line}");
    }
}

#[test]
fn tail_that_cannot_follow_gives_advice() {
    let outbox = Shop::empty(StoreKind::Sqlite);
    let relay = Relay::start(&options(&outbox, &["--publish", "stdout:"]));
    let (code, _, printed) = TailProcess::start(&relay, "--outbox other").end();
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("other") || printed.contains("outbox"), "{printed}");
    let (code, _, printed) = TailProcess::start(&relay, "--count 0").end();
    assert_eq!(code, Some(2), "{printed}");
    let address = relay.address().to_owned();
    relay.stop();
    let output = posthaste(&["tail", "--relay", &format!("http://{address}")]).output().expect("it runs");
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("the relay cannot be reached: check that it runs"), "{printed}");
}
