//! The process of the demo is killed repeatedly on one file. No committed event is lost, none is invented, and only
//! events in flight are delivered twice.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use crate::binary::{json_of, posthaste};

const KILLS: u64 = 50;

/// Maximum number of journal entries (attempted, committed, delivered) before a kill.
const MAX_STEPS: usize = 2_000;

#[test]
fn demo_killed_fifty_times_loses_and_invents_nothing() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let dir = tempfile::tempdir().expect("a directory");
    let outbox = folder(dir.path());
    let check = || json_of(&["demo", "--check", "--dir", outbox, "--journal", outbox]);
    // Events that were delivered but not yet settled when the process died.
    let mut in_flight = 0;
    for _ in 0..KILLS {
        run_and_kill(dir.path(), &mut random);
        if dir.path().join("demo.db").exists() {
            in_flight += check()["unsettled"].as_u64().expect("a count");
        }
    }
    let end = json_of(&["demo", "--once", "--events", "10", "--dir", outbox, "--journal", outbox]);
    assert_eq!(end["pending"], 0, "{end}");
    let found = check();
    println!("{in_flight} in flight, {found}");
    for wrong in ["lost", "invented", "vanished"] {
        assert_eq!(found[wrong].as_array().map(Vec::len), Some(0), "{wrong} in {found}");
    }
    assert_eq!(found["pending"], 0, "{found}");
    assert!(found["committed"].as_u64() > Some(KILLS), "the kills left time to work: {found}");
    assert!(found["duplicates"].as_u64() <= Some(in_flight), "{in_flight} in flight, {found}");
}

/// Kills the process after a random number of journal entries, sometimes before the first.
fn run_and_kill(dir: &Path, random: &mut fastrand::Rng) {
    let outbox = folder(dir);
    let seed = random.u32(..).to_string();
    let mut demo = posthaste(&["demo", "--dir", outbox, "--journal", outbox, "--echo", "--rate", "0"])
        .args(["--seed", &seed])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let steps = random.usize(0..MAX_STEPS);
    let output = BufReader::new(demo.stdout.take().expect("a pipe"));
    let seen = output.lines().map_while(Result::ok).take(steps).count();
    assert_eq!(seen, steps, "it ended by itself");
    demo.kill().expect("it runs");
    demo.wait().expect("it was killed");
}

fn folder(dir: &Path) -> &str {
    dir.to_str().expect("a plain path")
}
