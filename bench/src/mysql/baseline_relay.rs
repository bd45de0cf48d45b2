//! Relays as somebody would write them for this table alone: nothing in them can fail, retry, pause or
//! be fenced off.

use std::time::{Duration, Instant};

use anyhow::Context;
use sqlx::mysql::MySqlConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Executor as _, MySqlConnection, Row as _};
use tokio::sync::mpsc;

use super::statements::Statements;

/// As the store's own connections have it: a claim locks the rows that it finds, and not the gaps between.
const ISOLATION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";

/// The best that claims of rows allow: the next batch is claimed while the last one is settled by one
/// statement. Answers how long it took.
pub(super) async fn best_case(
    options: &MySqlConnectOptions,
    statements: &Statements,
    events: u64,
) -> anyhow::Result<Duration> {
    let (mut claiming, mut settling) = (connect(options).await?, connect(options).await?);
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

/// As a simple relay: a batch is claimed, and each event is settled by a transaction of its own.
pub(super) async fn one_by_one(
    options: &MySqlConnectOptions,
    statements: &Statements,
    events: u64,
) -> anyhow::Result<OneByOne> {
    let mut connection = connect(options).await?;
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

async fn connect(options: &MySqlConnectOptions) -> anyhow::Result<MySqlConnection> {
    let mut connection = options.clone().disable_statement_logging().connect().await?;
    connection.execute(ISOLATION).await?;
    Ok(connection)
}

async fn claim(statements: &Statements, connection: &mut MySqlConnection) -> anyhow::Result<Vec<i64>> {
    let mut tx = connection.begin().await?;
    let rows = statements.find().fetch_all(&mut *tx).await?;
    let mut seqs = Vec::with_capacity(rows.len());
    for row in &rows {
        // A handler wants an event of its own, so everything is read.
        let _: (String, String, String) = (row.try_get(1)?, row.try_get(2)?, row.try_get(7)?);
        let _: (Option<String>, Option<String>, i32) = (row.try_get(3)?, row.try_get(6)?, row.try_get(8)?);
        seqs.push(row.try_get(0)?);
    }
    seqs.sort_unstable();
    if !seqs.is_empty() {
        statements.lease("by hand", 1, &seqs).execute(&mut *tx).await?;
    }
    tx.commit().await?;
    Ok(seqs)
}

async fn settle(
    statements: &Statements,
    connection: &mut MySqlConnection,
    seqs: &[i64],
) -> anyhow::Result<u64> {
    Ok(statements.settle(seqs).execute(connection).await?.rows_affected())
}
