//! Outcomes of events, from the replies of Redis.

use posthaste::Outcome;
use redis::{ErrorKind, RedisError, Value};

use super::settings::Settings;
use crate::check_error::UNREACHABLE_ADVICE;
use crate::operator_text::one_line;

/// The outcome of the reply to one `XADD`: the id of the entry, or an error.
pub(super) fn of_reply(reply: &Value, stream: &str) -> Outcome {
    let error = match reply {
        Value::BulkString(_) | Value::SimpleString(_) | Value::VerbatimString { .. } => {
            return Outcome::done();
        }
        Value::ServerError(error) => error,
        _ => {
            return Outcome::retry(one_line(format!(
                "Redis replied without an entry id for the stream {stream}"
            )));
        }
    };
    let (code, details) = (error.code(), error.details().unwrap_or_default());
    match code {
        "WRONGTYPE" => Outcome::retry(one_line(format!(
            "the key {stream} exists in Redis and is not a stream: rename one of the two"
        ))),
        "NOPERM" => Outcome::retry(one_line(format!(
            "the user may not add to the stream {stream}: allow XADD and the key, or use another user"
        ))),
        // Redis refuses every write until memory is free, so smaller batches would not help and the event is not the
        // cause. The destination counts as unreachable rather than busy: an event for a busy destination is eventually
        // given up.
        "OOM" => Outcome::no_answer("Redis is full (OOM): give it more maxmemory, or trim streams"),
        "MISCONF" => {
            Outcome::no_answer("Redis refuses writes, because it cannot write to its disk (MISCONF)")
        }
        "READONLY" => Outcome::no_answer("this Redis is a replica, which refuses writes: name the primary"),
        "NOREPLICAS" => Outcome::no_answer("Redis has fewer replicas than min-replicas-to-write requires"),
        "NOAUTH" | "WRONGPASS" => Outcome::no_connection("Redis refuses the login: check user and password"),
        // Redis refuses a long command of an unauthenticated client as a protocol error, without reading it.
        "ERR" if details.contains("unauthenticated") => {
            Outcome::no_connection("Redis refuses the login: check user and password")
        }
        "LOADING" => Outcome::no_answer("Redis is still loading its data"),
        "MOVED" | "ASK" | "CLUSTERDOWN" | "CROSSSLOT" => Outcome::no_answer(format!(
            "this Redis is a node of a cluster ({code}), and clusters are not supported here: name a single server"
        )),
        "MASTERDOWN" | "BUSY" | "TRYAGAIN" | "UNBLOCKED" | "UNKILLABLE" => {
            Outcome::no_answer(one_line(format!("Redis cannot process commands now: {code} {details}")))
        }
        _ => Outcome::retry(one_line(format!(
            "Redis refuses an entry of the stream {stream}: {code} {details}"
        ))),
    }
}

/// Whether the server is currently not the primary. After a failover, an old primary may keep its connections open,
/// while a new connection reaches the new primary.
pub(super) fn is_not_primary(reply: &Value) -> bool {
    let Value::ServerError(error) = reply else { return false };
    matches!(error.code(), "READONLY" | "MASTERDOWN" | "LOADING" | "UNBLOCKED")
}

/// The outcome of each event of a pipeline that got no reply.
pub(super) fn of_lost_reply(error: Option<&RedisError>, settings: &Settings) -> Outcome {
    let server = &settings.server;
    match error {
        None => Outcome::no_answer(format!("Redis at {server} sent fewer replies than commands")),
        Some(error) if error.is_timeout() => Outcome::no_answer(format!(
            "Redis at {server} did not reply within {:?}",
            settings.common.timeout
        )),
        Some(error) => {
            Outcome::no_connection(one_line(format!("the connection to Redis at {server} broke: {error}")))
        }
    }
}

/// The outcome of an event that could not be sent before the deadline of the call.
pub(super) fn of_expired_deadline(settings: &Settings) -> Outcome {
    let (server, limit) = (&settings.server, settings.call_timeout());
    Outcome::no_answer(format!("Redis at {server} did not accept the events of a call within {limit:?}"))
}

/// The text for a connection that could not be opened.
pub(super) fn no_connection(error: &RedisError, settings: &Settings) -> String {
    let server = &settings.server;
    one_line(if is_login_error(error) {
        format!("Redis at {server} refuses the login: check user and password")
    } else if error.is_timeout() {
        format!(
            "no connection to Redis at {server} within {:?}: {UNREACHABLE_ADVICE}",
            settings.common.timeout
        )
    } else {
        format!("no connection to Redis at {server}: {error}: {UNREACHABLE_ADVICE}")
    })
}

/// Whether the server refused the login.
pub(super) fn is_login_error(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed || matches!(error.code(), Some("NOAUTH" | "WRONGPASS"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome_of(error: &str) -> Outcome {
        let value = redis::parse_redis_value(format!("-{error}\r\n").as_bytes()).expect("a reply");
        of_reply(&value, "orders")
    }

    #[test]
    fn error_of_the_server_is_unreachable_and_error_of_an_entry_is_an_attempt() {
        for error in [
            "OOM command not allowed when used memory > 'maxmemory'.",
            "MISCONF Redis is configured to save RDB snapshots",
            "READONLY You can't write against a read only replica.",
            "NOREPLICAS Not enough good replicas to write.",
            "NOAUTH Authentication required.",
            "ERR Protocol error: unauthenticated multibulk length",
            "LOADING Redis is loading the dataset in memory",
            "MOVED 3999 127.0.0.1:6381",
            "CLUSTERDOWN The cluster is down",
            "MASTERDOWN Link with MASTER is down",
            "BUSY Redis is busy running a script.",
            "UNBLOCKED force unblock from blocking operation",
        ] {
            assert!(matches!(outcome_of(error), Outcome::Unreachable(_)), "{error}");
        }
        for error in
            ["WRONGTYPE Operation against a key", "NOPERM this user has no permissions", "ERR unknown"]
        {
            assert!(matches!(outcome_of(error), Outcome::Failed(_)), "{error}");
        }
        assert!(of_reply(&Value::BulkString(b"1-0".to_vec()), "orders").is_done());
        assert!(matches!(of_reply(&Value::Nil, "orders"), Outcome::Failed(_)));
    }
}
