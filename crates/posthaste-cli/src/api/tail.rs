//! Follows an outbox: one line of JSON per delivery, as it happens.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::IntoResponse;
use futures_util::stream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::asked::{Answer, Asked};
use super::fields::Values;
use super::refusal::Refusal;
use crate::relay::tail::TailLine;

/// An empty line is sent so often: whoever is gone is noticed, and whoever is here knows that we are.
const HEARTBEAT: Duration = Duration::from_secs(15);

pub(super) async fn tail(asked: Asked) -> Answer {
    let lines = asked.outbox()?.tail().follow();
    let full = |_| Refusal::unavailable("too many follow already", "end one of the others, then try again");
    let place = asked.shared.followers.clone().try_acquire_owned().map_err(full)?;
    let mut beat = interval(HEARTBEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let stop = asked.shared.stop.clone();
    let follower = Follower { lines, wanted: asked.query, beat, stop, _place: place };
    let body = stream::unfold(follower, |mut follower| async {
        let line = follower.next().await?;
        Some((Ok::<_, Infallible>(line), follower))
    });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(body)).into_response())
}

struct Follower {
    lines: Receiver<TailLine>,
    wanted: Values,
    /// Ticks at once: an empty line says that from here on nothing is missed.
    beat: Interval,
    stop: CancellationToken,
    _place: OwnedSemaphorePermit,
}

impl Follower {
    /// None: the relay stops.
    async fn next(&mut self) -> Option<String> {
        loop {
            let heard = tokio::select! {
                biased;
                () = self.stop.cancelled() => return None,
                _ = self.beat.tick() => return Some("\n".to_owned()),
                heard = self.lines.recv() => heard,
            };
            match heard {
                Ok(line) if is_wanted(&line, &self.wanted) => {
                    return serde_json::to_string(&line).ok().map(ended);
                }
                Ok(_) => {}
                Err(RecvError::Lagged(missed)) => return Some(ended(format!(r#"{{"missed":{missed}}}"#))),
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

fn ended(line: String) -> String {
    line + "\n"
}

fn is_wanted(line: &TailLine, wanted: &Values) -> bool {
    let conditions = [
        ("type", Some(&*line.event_type)),
        ("aggregate_type", Some(&*line.aggregate_type)),
        ("aggregate_id", line.aggregate_id.as_deref()),
        ("tenant", line.tenant_id.as_deref()),
        ("outcome", Some(&*line.outcome)),
    ];
    conditions.into_iter().all(|(name, value)| wanted.text(name).is_none_or(|text| value == Some(text)))
}
