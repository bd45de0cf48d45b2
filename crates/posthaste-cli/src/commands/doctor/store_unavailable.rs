//! Findings for a store that cannot be opened or does not respond: the situation in which the doctor is needed most.

use posthaste::StoreError;
use posthaste::admin::Finding;
use posthaste_redis::OpenError as RedisError;
use posthaste_sqlx::OpenError as SqlError;

use crate::errors;
use posthaste_admin::terminal_escape;

const RERUN_ADVICE: &str = "fix that, then run the doctor again to see further findings";

/// A finding that says why the store cannot be opened. The errors of stores name a fact and, after a colon, what to do.
pub(super) fn finding(error: &anyhow::Error) -> Finding {
    let mut causes = error.chain().map(|cause| terminal_escape::one_line(&cause.to_string()));
    let cannot_be_opened = causes.next().unwrap_or_default();
    let why = causes.next().unwrap_or_default();
    let advice = errors::advice(error);
    let (fact, advice) = match why.split_once(": ") {
        Some((fact, to_do)) if advice.is_none() && !is_of_server(error) => (fact, to_do),
        _ => (why.as_str(), advice.unwrap_or(RERUN_ADVICE)),
    };
    let said = causes.last().filter(|said| !fact.contains(said.as_str()));
    let said = said.map(|said| format!(" ({said})")).unwrap_or_default();
    Finding::problem(code(error), format!("{cannot_be_opened}: {fact}{said}"), advice)
}

/// A finding for a store that was opened but does not respond.
pub(super) fn failed(error: StoreError) -> Finding {
    let error = anyhow::Error::new(error);
    let causes: Vec<String> =
        error.chain().map(|cause| terminal_escape::one_line(&cause.to_string())).collect();
    let advice = errors::advice(&error).unwrap_or(RERUN_ADVICE);
    Finding::problem("store-failed", format!("the outbox cannot be read: {}", causes.join(": ")), advice)
}

/// Whether the text comes from the server: a colon in it does not separate fact and advice.
fn is_of_server(error: &anyhow::Error) -> bool {
    matches!(of_redis(error), Some(RedisError::Server(_)))
}

fn code(error: &anyhow::Error) -> &'static str {
    const UNREACHABLE_CODE: &str = "store-unreachable";
    let of_sql = error.chain().find_map(|cause| cause.downcast_ref::<SqlError>());
    match (of_sql, of_redis(error)) {
        (
            Some(
                SqlError::Unreachable { .. }
                | SqlError::Refused { .. }
                | SqlError::NoDatabase { .. }
                | SqlError::NoConnectionLeft { .. },
            ),
            _,
        ) => UNREACHABLE_CODE,
        (
            Some(
                SqlError::MissingFile(_)
                | SqlError::NoSchema { .. }
                | SqlError::NoForeignTable { .. }
                | SqlError::TableGone { .. },
            ),
            _,
        ) => "no-outbox",
        (Some(SqlError::Pooler { .. }), _) => "pgbouncer",
        (_, Some(RedisError::Unreachable { .. } | RedisError::Refused { .. })) => UNREACHABLE_CODE,
        _ => "store-unusable",
    }
}

fn of_redis(error: &anyhow::Error) -> Option<&RedisError> {
    error.chain().find_map(|cause| cause.downcast_ref())
}
