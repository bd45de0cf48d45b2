//! Conversion of events into stream entries, and of entries into pipelines.

use posthaste::Delivery;
use redis::{Cmd, Pipeline};

use super::settings::Settings;
use crate::format::Message;
use crate::unsendable::Unsendable;

/// The prefix of fields for headers, so that no header collides with the other fields of an entry.
const HEADER_FIELD_PREFIX: &str = "header:";

/// Headers of the formats that every entry already contains as fields with shorter names.
const HEADERS_SENT_AS_FIELDS: [&str; 3] = ["outbox-event-id", "outbox-event-type", "outbox-aggregate-id"];

/// An entry that has not been sent yet.
pub(super) struct Entry {
    stream: String,
    command: Cmd,
    /// The size of all fields.
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

/// Entries that are sent in one pipeline, and the stream of each.
#[derive(Default)]
pub(super) struct EntryPipeline {
    pub(super) pipeline: Pipeline,
    pub(super) streams: Vec<String>,
    bytes: usize,
}

impl EntryPipeline {
    /// Splits entries into pipelines of at most `max_bytes`. A larger entry gets a pipeline of its own.
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
