//! What looks wrong with the database file and its write-ahead log.

use std::fs;
use std::path::PathBuf;

use posthaste::StoreError;
use posthaste::admin::{Finding, Tolerance};
use sqlx::{Row as _, SqliteConnection};

use super::super::SqliteStore;

/// What cannot be asked, of a file that may not be written for example, is left out.
pub(super) async fn findings(store: &SqliteStore, tolerance: &Tolerance) -> Vec<Finding> {
    let answers = [journal(store).await, log(store, tolerance).await];
    answers.into_iter().filter_map(Result::ok).flatten().collect()
}

async fn journal(store: &SqliteStore) -> Result<Option<Finding>, StoreError> {
    let mode: String = store
        .read(async |connection| sqlx::query_scalar("PRAGMA journal_mode").fetch_one(connection).await)
        .await?;
    // A database in memory has no file to keep one in.
    let is_slow = !matches!(&*mode, "wal" | "memory");
    Ok(is_slow.then(|| {
        Finding::warning(
            "journal-mode",
            format!("the journal mode of the file is {mode:?}: whoever reads and whoever writes wait for each other"),
            "PRAGMA journal_mode = WAL, while nobody else has the file open; an engine sets it when it starts",
        )
    }))
}

/// A log that is large and was written back is no harm: it is used again from its beginning. So it is written
/// back as far as others let us, as any commit would do, and what is left over counts.
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
                "the write-ahead log has {} MiB, and {left} pages of it cannot be written back: somebody has been \
                 reading since before they were written, and every other look gets slower",
                bytes / (1024 * 1024)
            ),
            "find the program that leaves a SELECT or a transaction open on the file, and let it end it",
        )
    }))
}

/// How many pages of the log somebody keeps there.
async fn left_over(connection: &mut SqliteConnection) -> sqlx::Result<i64> {
    let row = sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").fetch_one(connection).await?;
    Ok(row.try_get::<i64, _>(1)? - row.try_get::<i64, _>(2)?)
}
