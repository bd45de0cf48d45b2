//! Diagnosis of the database file and its write-ahead log.

use std::fs;
use std::path::PathBuf;

use posthaste::StoreError;
use posthaste::admin::{Finding, Tolerance};
use sqlx::{Row as _, SqliteConnection};

use super::super::SqliteStore;

/// Leaves out checks that fail, for example on a file that cannot be written.
pub(super) async fn findings(store: &SqliteStore, tolerance: &Tolerance) -> Vec<Finding> {
    let results = [journal(store).await, log(store, tolerance).await];
    results.into_iter().filter_map(Result::ok).flatten().collect()
}

async fn journal(store: &SqliteStore) -> Result<Option<Finding>, StoreError> {
    let mode: String = store
        .read(async |connection| sqlx::query_scalar("PRAGMA journal_mode").fetch_one(connection).await)
        .await?;
    // A database in memory has no log.
    let is_slow = !matches!(&*mode, "wal" | "memory");
    Ok(is_slow.then(|| {
        Finding::warning(
            "journal-mode",
            format!("the journal mode of the file is {mode:?}: readers and writers wait for each other"),
            "run PRAGMA journal_mode = WAL while no other program has the file open; an engine sets it when \
             it starts",
        )
    }))
}

/// A large log does no harm once it was written back, because it is then used again from its beginning. So a passive
/// checkpoint writes back as much as other connections allow, as any commit would do, and the rest is reported.
async fn log(store: &SqliteStore, tolerance: &Tolerance) -> Result<Option<Finding>, StoreError> {
    let mut path = store.connections().path().as_os_str().to_owned();
    path.push("-wal");
    let bytes = fs::metadata(PathBuf::from(path)).map_or(0, |file| file.len());
    if bytes <= tolerance.wal_bytes {
        return Ok(None);
    }
    let left = store.read(left_over).await?;
    Ok((left > 0).then(|| {
        Finding::warning(
            "wal-size",
            format!(
                "the write-ahead log has {} MiB, and {left} pages of it cannot be written back: a reader \
                 has been active since before they were written, and every other query gets slower",
                bytes / (1024 * 1024)
            ),
            "find the program that leaves a SELECT or a transaction open on the file, and end it there",
        )
    }))
}

/// The number of pages that cannot be written back, because another connection still reads an older state.
async fn left_over(connection: &mut SqliteConnection) -> sqlx::Result<i64> {
    let row = sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").fetch_one(connection).await?;
    Ok(row.try_get::<i64, _>(1)? - row.try_get::<i64, _>(2)?)
}
