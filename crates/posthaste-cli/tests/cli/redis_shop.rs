//! A test outbox in Redis: its rows, and the events that a service writes into it.

use std::collections::BTreeMap;

use posthaste::{Event, Outbox, Routes};
use posthaste_redis::{OutboxName, RedisStore, RedisStoreBuilder, RedisWriter};
use posthaste_testkit::sample_rows::{PAST_SECONDS, Row};
use redis::{Cmd, FromRedisValue, cmd};
use serde::Serialize;
use serde_json::Value;

use crate::shop::{Shop, block_on};

impl Shop {
    pub(crate) fn add_redis_rows(&self, rows: &[Row]) {
        rows.iter().enumerate().for_each(|(number, row)| self.add_redis_row(number, row));
    }

    /// Stores a row as the scripts of the store do.
    fn add_redis_row(&self, number: usize, row: &Row) {
        let Row { id, status, attempts, .. } = row;
        let done = row.done_at.map(|at| micros(at).to_string()).unwrap_or_default();
        let digits = number.to_string().len();
        let position = format!("{}-{digits}{number}", row.inserted_at * 1000);
        let error = row.last_error.unwrap_or_default();
        let state = format!("{status}\t{position}\t\t{attempts}\t0\t0\t0\t{done}\t\t\t\t{error}");
        self.redis::<u8>(cmd("HSET").arg(self.key("entries")).arg(id).arg(body(row)));
        self.redis::<u8>(cmd("HSET").arg(self.key("state")).arg(id).arg(state));
        let index = match status {
            0 | 2 => "waiting",
            3 => "dead",
            _ => "done",
        };
        if index == "waiting" {
            self.redis::<u8>(cmd("ZADD").arg(self.key("pending")).arg(micros(row.available_at)).arg(id));
        }
        self.redis::<u8>(cmd("ZADD").arg(self.key(index)).arg(0).arg(format!("{position}:{id}")));
    }

    /// Writes events as a service without an engine does.
    pub(crate) fn write_to(&self, builder: RedisStoreBuilder, events: impl IntoIterator<Item = Event>) {
        let written: anyhow::Result<()> = block_on(async {
            let store = builder.name(OutboxName::new(self.name())?).connect().await?;
            let writer = RedisWriter::new(
                &store,
                &Outbox::builder(store.clone(), Routes::new()).writer_only().build()?,
            );
            for event in events {
                writer.write(event).await?;
            }
            Ok(())
        });
        written.expect("the events are written");
    }

    /// Writes events with these ids, for aggregates of type `Order`.
    pub(crate) fn write_redis_ids(&self, event_type: &str, ids: &[String]) {
        let builder = RedisStore::builder(self.url()).expect("a good URL");
        let event =
            |id: &String| Event::builder(event_type.to_owned()).id(id.as_str()).aggregate("Order", id);
        self.write_to(builder, ids.iter().map(|id| event(id).json(&1).build().expect("an event")));
    }

    /// A key of the outbox.
    pub(crate) fn key(&self, key: &str) -> String {
        format!("{{{}:0}}:{key}", self.name())
    }

    /// Sends a command to the server, as another program would.
    pub(crate) fn redis<T: FromRedisValue>(&self, cmd: &Cmd) -> T {
        let connection = redis::Client::open(self.url()).and_then(|client| client.get_connection());
        cmd.query(&mut connection.expect("the server runs")).expect("a reply")
    }

    /// The states of all rows, by id.
    pub(crate) fn redis_states(&self) -> String {
        let rows: BTreeMap<String, String> = self.redis(cmd("HGETALL").arg(self.key("state")));
        let states: Vec<String> = rows.iter().map(|(id, state)| format!("{id}={}", &state[..1])).collect();
        states.join(" ")
    }

    /// Removes the keys of the outbox from a server or from a node of a cluster.
    pub(crate) fn remove_redis_keys(&self) {
        for key in self.redis::<Vec<String>>(cmd("KEYS").arg(format!("{{{}:*", self.name()))) {
            self.redis::<u8>(cmd("UNLINK").arg(key));
        }
    }
}

/// The event of a row, as a Writer stores it: with the payload last.
#[derive(Serialize)]
struct Body {
    event_type: &'static str,
    aggregate_type: &'static str,
    aggregate_id: Option<&'static str>,
    tenant_id: Option<&'static str>,
    headers: Option<Value>,
    created_at: i64,
    payload_bytes: usize,
    payload: &'static str,
}

fn body(row: &Row) -> String {
    let body = Body {
        event_type: row.event_type,
        aggregate_type: row.aggregate_type(),
        aggregate_id: row.order,
        tenant_id: row.tenant,
        headers: row.headers.map(|headers| headers.parse().expect("headers are JSON")),
        created_at: micros(PAST_SECONDS),
        payload_bytes: row.payload.len(),
        payload: row.payload,
    };
    serde_json::to_string(&body).expect("JSON")
}

fn micros(seconds: i64) -> i64 {
    seconds * 1_000_000
}
