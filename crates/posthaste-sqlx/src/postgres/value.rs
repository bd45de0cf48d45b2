//! Values in statements and rows of PostgreSQL.

use std::borrow::Cow;
use std::time::Duration;

use posthaste::Timestamp;
use posthaste::store::Lease;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::{Oid, PgInterval};
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueFormat, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Type};

pub(crate) use crate::sql::limit;

/// A `timestamptz`, which PostgreSQL sends as microseconds since 2000. It is read and written as this number, without
/// rounding and without a calendar.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time(pub(crate) Timestamp);

impl Time {
    /// 2000-01-01 in microseconds since 1970.
    const EPOCH_MICROS: i64 = 946_684_800_000_000;
    /// The range of PostgreSQL's calendar: 4714 BC to 294276 AD.
    const MIN_MICROS: i64 = -211_813_488_000_000_000;
    const MAX_MICROS: i64 = 9_223_371_331_199_999_999;

    /// The value of `-infinity`.
    const MINUS_INFINITY: i64 = i64::MIN;
}

impl Type<Postgres> for Time {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(1184))
    }
}

impl PgHasArrayType for Time {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(1185))
    }
}

impl Encode<'_, Postgres> for Time {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        let micros = match self.0.as_micros() {
            Self::MINUS_INFINITY => Self::MINUS_INFINITY,
            micros => micros.saturating_sub(Self::EPOCH_MICROS).clamp(Self::MIN_MICROS, Self::MAX_MICROS),
        };
        buffer.extend_from_slice(&micros.to_be_bytes());
        Ok(IsNull::No)
    }
}

impl Decode<'_, Postgres> for Time {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        match value.format() {
            PgValueFormat::Binary => {
                let micros = match i64::from_be_bytes(value.as_bytes()?.try_into()?) {
                    // It must convert back to the same value, because claims continue after the last row that they saw.
                    Self::MINUS_INFINITY => Self::MINUS_INFINITY,
                    micros => micros.saturating_add(Self::EPOCH_MICROS),
                };
                Ok(Self(Timestamp::from_micros(micros)))
            }
            PgValueFormat::Text => Err("a time as text".into()),
        }
    }
}

/// The time to use instead of the clock of the server, if there is one.
pub(super) fn now(now: Option<Timestamp>) -> Option<Time> {
    now.map(Time)
}

/// A delay, limited to a thousand years so that its end can be stored.
pub(super) fn interval(delay: Duration) -> PgInterval {
    const MAX_DELAY_MICROS: i64 = 1000 * 365 * 24 * 3600 * 1_000_000;
    let microseconds = i64::try_from(delay.as_micros()).unwrap_or(MAX_DELAY_MICROS).min(MAX_DELAY_MICROS);
    PgInterval { months: 0, days: 0, microseconds }
}

/// Leases as three lists of the same length, in the order of `seq`: all transactions change rows in this order, so that
/// two of them cannot deadlock.
pub(super) fn leases<'a>(leases: impl IntoIterator<Item = &'a Lease>) -> (Vec<i64>, Vec<&'a str>, Vec<i64>) {
    let mut sorted: Vec<&Lease> = leases.into_iter().collect();
    sorted.sort_unstable_by_key(|lease| lease.seq);
    let seqs = sorted.iter().map(|lease| lease.seq).collect();
    let ids = sorted.iter().map(|lease| lease.id.as_str()).collect();
    (seqs, ids, sorted.iter().map(|lease| lease.token.as_i64()).collect())
}

/// A text that PostgreSQL can store: without NUL.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    match text.contains('\0') {
        true => text.replace('\0', "\u{fffd}").into(),
        false => text.into(),
    }
}
