//! Relays as somebody would write them for this table alone: nothing in them can fail, retry, pause or
//! be fenced off.

use std::time::{Duration, Instant};

use anyhow::Context;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, PgConnection, Row as _};
use tokio::sync::mpsc;

use super::statements::Statements;

/// What the store sets for its own connections.
const SETTINGS: [(&str, &str); 6] = [
    ("synchronous_commit", "off"),
    ("jit", "off"),
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
];

/// The best that claims of rows allow: the next batch is claimed while the last one is settled, each
/// in one statement, and nobody waits for the disk. Answers how long it took.
pub(super) async fn best_case(
    options: &PgConnectOptions,
    statements: &Statements,
    events: u64,
) -> anyhow::Result<Duration> {
    let connect = || options.clone().options(SETTINGS).disable_statement_logging();
    let (mut claiming, mut settling) = (connect().connect().await?, connect().connect().await?);
    let started = Instant::now();
    let (hand_over, mut claimed) = mpsc::channel::<Vec<i64>>(1);
    let claimer = {
        let statements = statements.clone();
        tokio::spawn(async move {
            loop {
                let seqs = claim(&statements, &mut claiming).await?;
                if seqs.is_empty() || hand_over.send(seqs).await.is_err() {
                    return anyhow::Ok(());
                }
            }
        })
    };
    let mut left = events;
    while left > 0 {
        let seqs = claimed.recv().await.context("the backlog ended too early")?;
        left -= settle(statements, &mut settling, &seqs).await?;
    }
    let took = started.elapsed();
    drop(claimed);
    claimer.await??;
    Ok(took)
}

/// How long it took to settle events one by one, and to claim and settle them.
pub(super) struct OneByOne {
    pub(super) settling: Duration,
    pub(super) all: Duration,
}

/// As a simple relay: a batch is claimed, and each event is settled by a transaction of its own, with
/// the server's own settings.
pub(super) async fn one_by_one(
    options: &PgConnectOptions,
    statements: &Statements,
    events: u64,
) -> anyhow::Result<OneByOne> {
    let mut connection = options.clone().disable_statement_logging().connect().await?;
    let started = Instant::now();
    let (mut left, mut settling) = (events, Duration::ZERO);
    while left > 0 {
        let seqs = claim(statements, &mut connection).await?;
        anyhow::ensure!(!seqs.is_empty(), "the backlog ended too early");
        let claimed = Instant::now();
        for seq in seqs {
            left -= settle(statements, &mut connection, &[seq]).await?;
        }
        settling += claimed.elapsed();
    }
    Ok(OneByOne { settling, all: started.elapsed() })
}

async fn claim(statements: &Statements, connection: &mut PgConnection) -> anyhow::Result<Vec<i64>> {
    let query = statements.claim().bind("by hand").bind(1_i64);
    let rows = query.fetch_all(connection).await?;
    let mut seqs = Vec::with_capacity(rows.len());
    for row in &rows {
        // A handler wants an event of its own, so everything is read.
        let _: (String, String, String) = (row.try_get(1)?, row.try_get(2)?, row.try_get(7)?);
        let _: (Option<String>, Option<String>, i32) = (row.try_get(3)?, row.try_get(6)?, row.try_get(8)?);
        seqs.push(row.try_get(0)?);
    }
    seqs.sort_unstable();
    Ok(seqs)
}

async fn settle(statements: &Statements, connection: &mut PgConnection, seqs: &[i64]) -> anyhow::Result<u64> {
    Ok(statements.settle().bind(seqs).execute(connection).await?.rows_affected())
}
