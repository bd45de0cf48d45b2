//! Values in statements and rows of MySQL.
//!
//! Times are sent as microseconds since 1970, so that neither the time zone of a session nor a format of the driver
//! changes them.

use std::time::Duration;

use posthaste::Timestamp;
use posthaste::store::Lease;
pub(crate) use posthaste_sql_writer::mysql::{MAX_KEYS, placeholder_count};
use sqlx::MySql;
use sqlx::mysql::MySqlArguments;
use sqlx::query::Query;

pub(crate) use crate::sql::limit;

/// A column as microseconds since 1970.
macro_rules! micros {
    ($column:literal) => {
        concat!("TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', ", $column, ")")
    };
}

/// A time from bound microseconds since 1970.
macro_rules! at {
    () => {
        "(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL ? MICROSECOND)"
    };
}

/// The bound time, or the clock of the server if it is NULL.
macro_rules! clock {
    () => {
        "COALESCE(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL ? MICROSECOND, UTC_TIMESTAMP(6))"
    };
}

pub(super) use {at, clock, micros};

pub(crate) type MySqlQuery = Query<'static, MySql, MySqlArguments>;

/// The range of a DATETIME: the years 1000 to 9999.
const MIN_DATETIME_MICROS: i64 = -30_610_224_000_000_000;
const MAX_DATETIME_MICROS: i64 = 253_402_300_799_999_999;

/// A time, limited to the range of its column.
pub(super) fn time(time: Timestamp) -> i64 {
    time.as_micros().clamp(MIN_DATETIME_MICROS, MAX_DATETIME_MICROS)
}

/// The time to use instead of the clock of the server, if there is one.
pub(super) fn now(now: Option<Timestamp>) -> Option<i64> {
    now.map(time)
}

/// A delay in microseconds, limited to a thousand years so that its end can be stored.
pub(super) fn delay(delay: Duration) -> i64 {
    const MAX_DELAY_MICROS: i64 = 1000 * 365 * 24 * 3600 * 1_000_000;
    i64::try_from(delay.as_micros()).unwrap_or(MAX_DELAY_MICROS).min(MAX_DELAY_MICROS)
}

/// Binds a list. The last key fills the remaining placeholders.
pub(super) fn bind_all<'q, T>(query: MySqlQuery, keys: &[T]) -> MySqlQuery
where
    T: sqlx::Encode<'q, MySql> + sqlx::Type<MySql> + Clone + 'q,
{
    let fill = keys.last().into_iter().cycle().take(placeholder_count(keys.len()) - keys.len());
    keys.iter().chain(fill).cloned().fold(query, Query::bind)
}

/// Leases as JSON, in the order of `seq`: all transactions change rows in this order, so that two of them cannot
/// deadlock.
pub(super) fn leases(leases: &[Lease]) -> String {
    let mut named: Vec<_> =
        leases.iter().map(|lease| (lease.seq, lease.id.as_str(), lease.token.as_i64())).collect();
    named.sort_unstable();
    json(&named)
}

/// Serialises a value that always has a JSON form: numbers, texts and lists of them.
pub(super) fn json<T: serde::Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
