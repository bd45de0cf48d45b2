//! Handler of `tail`: streams deliveries as they happen, one line of JSON each.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::IntoResponse;
use futures_util::stream;
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::error::ApiError;
use super::params::Params;
use super::request::{ApiRequest, ApiResult};
use crate::wire::{MissedLines, TailLine};

/// An empty line is sent in this interval. It shows the follower that the process is alive, and its failure shows the
/// process that the follower is gone.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

pub(super) async fn tail(request: ApiRequest) -> ApiResult {
    let lines = request.outbox()?.feed().subscribe();
    let full = |_| {
        ApiError::unavailable("too many clients follow deliveries already", "end one of them, then try again")
    };
    let permit = request.state.followers.clone().try_acquire_owned().map_err(full)?;
    let mut beat = interval(HEARTBEAT_INTERVAL);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let stop = request.state.stop.clone();
    let follower = Follower { lines, wanted: request.query, beat, stop, _permit: permit };
    let body = stream::unfold(follower, |mut follower| async {
        let line = follower.next().await?;
        Some((Ok::<_, Infallible>(line), follower))
    });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(body)).into_response())
}

struct Follower {
    lines: Receiver<TailLine>,
    /// The conditions of the query: only matching lines are sent.
    wanted: Params,
    /// The first tick comes immediately. Its empty line tells the client that no delivery is missed from here on.
    beat: Interval,
    stop: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

impl Follower {
    /// The next line to send; `None` when the process stops.
    async fn next(&mut self) -> Option<String> {
        loop {
            let received = tokio::select! {
                biased;
                () = self.stop.cancelled() => return None,
                _ = self.beat.tick() => return Some("\n".to_owned()),
                received = self.lines.recv() => received,
            };
            match received {
                Ok(line) if is_wanted(&line, &self.wanted) => {
                    return json_line(&line);
                }
                Ok(_) => {}
                Err(RecvError::Lagged(missed)) => return json_line(&MissedLines { missed }),
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

fn json_line(line: &impl Serialize) -> Option<String> {
    serde_json::to_string(line).ok().map(|line| line + "\n")
}

fn is_wanted(line: &TailLine, wanted: &Params) -> bool {
    let conditions = [
        ("type", Some(&*line.event_type)),
        ("aggregate_type", Some(&*line.aggregate_type)),
        ("aggregate_id", line.aggregate_id.as_deref()),
        ("tenant", line.tenant_id.as_deref()),
        ("outcome", Some(&*line.outcome)),
    ];
    conditions.into_iter().all(|(name, value)| wanted.text(name).is_none_or(|text| value == Some(text)))
}
