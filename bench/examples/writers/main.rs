//! Benchmark of each Writer against a hand-written INSERT with the same driver. The two alternate transaction by
//! transaction, so that background load affects them equally.
//!
//! ```sh
//! cargo xtask bench writers                                       # on SQLite
//! DATABASE_URL=postgres://localhost/bench cargo xtask bench writers # and on PostgreSQL
//! ```

mod postgres;
mod sea_orm;
mod sqlite;

use std::time::{Duration, Instant};

use posthaste::{BoxError, Event, EventError};

const ROUND_COUNT: usize = 12;
const TRANSACTIONS_PER_ROUND: u32 = 1000;
const PAYLOAD: &str = r#"{"order":17,"items":[{"sku":"tea","count":2},{"sku":"coffee","count":1}]}"#;

fn event() -> Result<Event, EventError> {
    Event::builder("OrderPlaced").aggregate("Order", "17").json_text(PAYLOAD).build()
}

/// Runs both variants alternately and prints the rate of the Writer relative to the hand-written INSERT. The argument
/// of `transact` is whether to write by hand.
async fn compare(
    driver: &str,
    mut transact: impl AsyncFnMut(bool) -> Result<(), BoxError>,
) -> Result<(), BoxError> {
    let mut ratios = Vec::new();
    let (mut all_hand, mut all_ours) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..ROUND_COUNT {
        let (mut hand, mut ours) = (Duration::ZERO, Duration::ZERO);
        for n in 0..2 * TRANSACTIONS_PER_ROUND {
            let by_hand = n % 2 == 0;
            let started = Instant::now();
            transact(by_hand).await?;
            *if by_hand { &mut hand } else { &mut ours } += started.elapsed();
        }
        ratios.push(hand.as_secs_f64() / ours.as_secs_f64());
        all_hand += hand;
        all_ours += ours;
    }
    ratios.sort_by(f64::total_cmp);
    let mean = |all: Duration| all / (TRANSACTIONS_PER_ROUND * ROUND_COUNT as u32);
    println!(
        "{driver:<28} {:>5.1} % of the rate by hand (rounds: {:.1} to {:.1} %), {:.1?} and {:.1?} per transaction",
        100.0 * ratios[ROUND_COUNT / 2],
        100.0 * ratios[0],
        100.0 * ratios[ROUND_COUNT - 1],
        mean(all_ours),
        mean(all_hand),
    );
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    sqlite::run().await?;
    match std::env::var("DATABASE_URL") {
        Ok(url) => postgres::run(&url).await,
        Err(_) => {
            println!("Set DATABASE_URL to a PostgreSQL database to measure those on PostgreSQL too.");
            Ok(())
        }
    }
}
