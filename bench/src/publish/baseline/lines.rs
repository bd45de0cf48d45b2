//! Baseline for files, with the standard library: as many lines per write as the publisher writes.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::time::{Duration, Instant};

use super::super::NULL_BATCH_EVENTS;
use super::{Load, Messages, parse};
use posthaste_stores::InvalidStore;

pub(super) async fn publish(url: &str, load: &Load) -> anyhow::Result<Duration> {
    if !url.starts_with("file:") {
        return Err(InvalidStore::new("the results go to standard output: write file:///path").into());
    }
    let url = parse(url)?;
    let mut messages = Messages::of(load).peekable();
    let started = Instant::now();
    while messages.peek().is_some() {
        let mut lines = String::new();
        for message in messages.by_ref().take(NULL_BATCH_EVENTS) {
            lines.push_str(&format!(
                "{{\"id\":\"{}\",\"aggregate_id\":\"{}\",\"payload\":{}}}\n",
                message.id,
                message.key,
                load.body()
            ));
        }
        OpenOptions::new().append(true).create(true).open(url.path())?.write_all(lines.as_bytes())?;
    }
    Ok(started.elapsed())
}
