//! A seeded simulation of the engine on paused time.
//!
//! Each seed makes a small world: one or two nodes on one store, writers, two destinations, and a choice of faults.
//! Faults happen for a while, then everything heals, and then the invariants must hold. A failing seed is printed;
//! `POSTHASTE_SIM_SEED=n` runs it alone, and `POSTHASTE_SIM_SEEDS=n` runs that many.

#![allow(clippy::unwrap_used, reason = "a simulation that cannot go on has failed")]

mod destination;
mod faults;
mod invariants;
mod journal;
mod nodes;
mod plan;
mod workload;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use plan::Plan;

const SEEDS: u64 = 1000;

// Invariants 1, 2, 4, 5, 6 and 7; S2-06, S2-42, S3-111, T1, T4, T5, T9, T10, T12
#[test]
fn invariants_hold_under_any_faults() {
    let (seeds, totals) = run_seeds(Plan::new);
    if seeds >= 100 {
        totals.assert_everything_happened();
    }
}

// S3-134, S3-135, T3
#[test]
fn strict_mode_never_lets_an_event_overtake_an_older_one() {
    run_seeds(Plan::strict);
}

/// The simulation is deterministic: the same seed has the same result.
#[test]
fn same_seed_has_the_same_result() {
    for seed in [3, 17, 42] {
        assert_eq!(run(seed, &Plan::new(seed)), run(seed, &Plan::new(seed)), "seed {seed}");
    }
}

/// Runs every seed and stops at the first that violates an invariant.
fn run_seeds(plan: fn(u64) -> Plan) -> (usize, invariants::Summary) {
    let seeds: Vec<u64> = match (number("POSTHASTE_SIM_SEED"), number("POSTHASTE_SIM_SEEDS")) {
        (Some(seed), _) => vec![seed],
        (None, count) => (0..count.unwrap_or(SEEDS)).collect(),
    };
    let mut totals = invariants::Summary::default();
    let watchdog = Watchdog::start();
    for &seed in &seeds {
        watchdog.begin(seed);
        match catch_unwind(AssertUnwindSafe(|| run(seed, &plan(seed)))) {
            Ok(summary) => totals += summary,
            Err(panic) => {
                eprintln!("seed {seed} failed; run it alone with POSTHASTE_SIM_SEED={seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{} seeds: {totals}", seeds.len());
    (seeds.len(), totals)
}

/// Ends the test if a seed spins: paused time does not advance then, so it would hang for ever.
struct Watchdog(std::sync::mpsc::Sender<u64>);

impl Watchdog {
    const SEED_TIMEOUT: Duration = Duration::from_secs(60);

    fn start() -> Self {
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut seed = 0;
            loop {
                match receiver.recv_timeout(Self::SEED_TIMEOUT) {
                    Ok(next) => seed = next,
                    Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return,
                    Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                        eprintln!("seed {seed} hangs; run it alone with POSTHASTE_SIM_SEED={seed}");
                        std::process::abort();
                    }
                }
            }
        });
        Self(sender)
    }

    fn begin(&self, seed: u64) {
        let _ = self.0.send(seed);
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {text:?}")))
}

fn run(seed: u64, plan: &Plan) -> invariants::Summary {
    silence_expected_panics();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(story(seed, plan))
}

async fn story(seed: u64, plan: &Plan) -> invariants::Summary {
    // The engine's own random numbers (jitter, tokens, owners) come from the generator of this thread.
    fastrand::seed(seed);
    let world = nodes::World::new(plan);
    workload::run(&world, plan).await;
    world.heal(plan.outages > 0 && !plan.strict).await;
    let healed = tokio::time::timeout(plan.time_to_settle(), world.settled()).await;
    invariants::check(seed, plan, &world, healed.is_ok())
}

/// Handlers of this simulation panic on purpose. Their messages would hide everything else.
fn silence_expected_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let expected =
                info.payload().downcast_ref::<&str>().is_some_and(|text| *text == destination::PANIC_MESSAGE);
            if !expected {
                default(info);
            }
        }));
    });
}
