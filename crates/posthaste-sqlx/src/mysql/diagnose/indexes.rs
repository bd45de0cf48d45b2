//! Diagnosis of indexes: all of them exist, and the server may use them.

use std::collections::HashMap;

use posthaste::admin::Finding;
use posthaste_sql_writer::mysql::Flavour;
use sqlx::{MySql, MySqlConnection, Row as _};

use super::super::MySqlStore;
use super::super::migrate::TABLE;
use crate::findings::{missing_index, unused_index};

/// All indexes of the table, and whether statements may use them. The two servers have different columns for that.
const ON_MARIADB: &str = "SELECT DISTINCT index_name, ignored = 'NO' FROM information_schema.statistics
WHERE table_schema = DATABASE() AND table_name = '{table}'";
const ON_MYSQL: &str = "SELECT DISTINCT index_name, is_visible = 'YES' FROM information_schema.statistics
WHERE table_schema = DATABASE() AND table_name = '{table}'";

/// Finds nothing if the server shows no index at all, because it then hides the indexes from this user.
pub(super) async fn findings(store: &MySqlStore) -> Vec<Finding> {
    let seen = store.read(async |connection: &mut MySqlConnection| read(store, connection).await);
    let found = seen.await.unwrap_or_default();
    if found.is_empty() { Vec::new() } else { findings_about(store, &found) }
}

/// Reads the names of the indexes, and whether they may be used.
async fn read(store: &MySqlStore, connection: &mut MySqlConnection) -> sqlx::Result<HashMap<String, bool>> {
    let statement = match store.0.state.flavour {
        Flavour::MariaDb => ON_MARIADB,
        _ => ON_MYSQL,
    };
    let rows = store.sql().query::<MySql>(statement).fetch_all(connection).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get::<i64, _>(1)? != 0))).collect()
}

fn findings_about(store: &MySqlStore, found: &HashMap<String, bool>) -> Vec<Finding> {
    let keys = TABLE.lines().map(str::trim).filter(|line| line.contains("KEY `"));
    let finding = |key: &str| {
        let (key, table) = (store.sql().text(key.trim_end_matches(',')), store.sql().table());
        let name = key.split('`').nth(1).unwrap_or_default();
        match found.get(name) {
            None => Some(missing_index(name, &format!("ALTER TABLE `{table}` ADD {key}"))),
            Some(false) => Some(ignored(store, name)),
            Some(true) => None,
        }
    };
    keys.filter_map(finding).collect()
}

fn ignored(store: &MySqlStore, name: &str) -> Finding {
    let (why, word) = match store.0.state.flavour {
        Flavour::MariaDb => ("it is IGNORED", "NOT IGNORED"),
        _ => ("it is INVISIBLE", "VISIBLE"),
    };
    let table = store.sql().table();
    unused_index(
        name,
        why,
        &format!("let it be used again: ALTER TABLE `{table}` ALTER INDEX `{name}` {word}"),
    )
}
