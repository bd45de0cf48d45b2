//! Values as statements take them and as rows hold them.
//!
//! Times travel as microseconds since 1970, so that no time zone of a session and no format of a driver
//! has a say in them.

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

/// A time whose microseconds since 1970 are bound.
macro_rules! at {
    () => {
        "(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL ? MICROSECOND)"
    };
}

/// The store's clock, or the time that is bound to replace it.
macro_rules! clock {
    () => {
        "COALESCE(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL ? MICROSECOND, UTC_TIMESTAMP(6))"
    };
}

pub(super) use {at, clock, micros};

pub(crate) type MySqlQuery = Query<'static, MySql, MySqlArguments>;

/// The calendar of a DATETIME: the years 1000 to 9999.
const MIN_DATETIME_MICROS: i64 = -30_610_224_000_000_000;
const MAX_DATETIME_MICROS: i64 = 253_402_300_799_999_999;

/// A time, as far as its column can keep it.
pub(super) fn time(time: Timestamp) -> i64 {
    time.as_micros().clamp(MIN_DATETIME_MICROS, MAX_DATETIME_MICROS)
}

/// The time that replaces the store's clock, if there is one.
pub(super) fn now(now: Option<Timestamp>) -> Option<i64> {
    now.map(time)
}

/// A delay, cut to a thousand years so that its end can be written.
pub(super) fn delay(delay: Duration) -> i64 {
    const MAX_DELAY_MICROS: i64 = 1000 * 365 * 24 * 3600 * 1_000_000;
    i64::try_from(delay.as_micros()).unwrap_or(MAX_DELAY_MICROS).min(MAX_DELAY_MICROS)
}

/// Binds a list, the last key as often as it takes to fill all placeholders.
pub(super) fn bind_all<'q, T>(query: MySqlQuery, keys: &[T]) -> MySqlQuery
where
    T: sqlx::Encode<'q, MySql> + sqlx::Type<MySql> + Clone + 'q,
{
    let fill = keys.last().into_iter().cycle().take(placeholder_count(keys.len()) - keys.len());
    keys.iter().chain(fill).cloned().fold(query, Query::bind)
}

/// Leases as JSON, in the order of `seq`: those who change the same rows meet them in the same order, and
/// so never wait for each other in a circle.
pub(super) fn leases(leases: &[Lease]) -> String {
    let mut named: Vec<_> =
        leases.iter().map(|lease| (lease.seq, lease.id.as_str(), lease.token.as_i64())).collect();
    named.sort_unstable();
    json(&named)
}

/// Numbers, texts and lists of them always have a JSON form.
pub(super) fn json<T: serde::Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
