//! Events as entries of a stream.

use posthaste::Delivery;
use redis::{Cmd, Pipeline};

use super::builder::Settings;
use crate::format::Message;
use crate::unsendable::Unsendable;

/// What stands before the name of a header, so that none takes the place of our own fields.
const HEADER_FIELD_PREFIX: &str = "header:";

/// Headers of the formats that are fields of every entry already, under a shorter name.
const HEADERS_SENT_AS_FIELDS: [&str; 3] = ["outbox-event-id", "outbox-event-type", "outbox-aggregate-id"];

/// An entry that is not sent yet.
pub(super) struct Entry {
    stream: String,
    command: Cmd,
    bytes: usize,
}

impl Entry {
    pub(super) fn new(delivery: &Delivery, settings: &Settings) -> Result<Self, Unsendable> {
        let stream = settings.stream.target(delivery)?.into_owned();
        settings.topics.check(delivery.topic(), &stream)?;
        let message = settings.common.format.message(delivery, "ce-");
        let bytes = stream.len() + delivery.aggregate_id().map_or(0, str::len) + message.size();
        settings.common.check_size(bytes)?;
        let command = command(&stream, delivery, &message, settings);
        Ok(Self { stream, command, bytes })
    }
}

/// Entries that go out at once, and the streams that they are for.
#[derive(Default)]
pub(super) struct EntryPipeline {
    pub(super) pipeline: Pipeline,
    pub(super) streams: Vec<String>,
    bytes: usize,
}

impl EntryPipeline {
    /// Pipelines that are not too large; an entry that is too large by itself is alone.
    pub(super) fn split(entries: impl Iterator<Item = Entry>, max_bytes: usize) -> Vec<Self> {
        let mut pipelines: Vec<Self> = Vec::new();
        for entry in entries {
            match pipelines.last_mut().filter(|pipeline| pipeline.bytes + entry.bytes <= max_bytes) {
                Some(pipeline) => pipeline.add(entry),
                None => {
                    let mut pipeline = Self::default();
                    pipeline.add(entry);
                    pipelines.push(pipeline);
                }
            }
        }
        pipelines
    }

    fn add(&mut self, entry: Entry) {
        self.pipeline.add_command(entry.command);
        self.streams.push(entry.stream);
        self.bytes += entry.bytes;
    }
}

fn command(stream: &str, delivery: &Delivery, message: &Message<'_>, settings: &Settings) -> Cmd {
    let mut command = redis::cmd("XADD");
    command.arg(stream);
    if let Some(length) = settings.max_length {
        command.arg("MAXLEN").arg(if settings.approximate { "~" } else { "=" }).arg(length);
    }
    command.arg("*").arg("id").arg(delivery.id().as_str()).arg("type").arg(delivery.event_type());
    if let Some(key) = delivery.aggregate_id() {
        command.arg("key").arg(key);
    }
    command.arg("content-type").arg(&*message.content_type);
    let mut field = String::new();
    for (name, value) in message.headers.iter().filter(|(name, _)| !HEADERS_SENT_AS_FIELDS.contains(&&**name))
    {
        field.clear();
        field.push_str(HEADER_FIELD_PREFIX);
        field.push_str(name);
        command.arg(&field).arg(&**value);
    }
    command.arg("payload").arg(&message.body[..]);
    command
}
