//! Allow list of topics. An event's topic is used as the key of a stream, so it must not name arbitrary keys.

use crate::unsendable::Unsendable;

/// The topics that an event may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum AllowedTopics {
    /// Any, except the keys of an outbox in Redis.
    #[default]
    Any,
    /// Names, and prefixes of names that end with `*`.
    These(Vec<String>),
}

impl AllowedTopics {
    /// Parses a comma-separated list, as in a URL.
    pub(super) fn parse(text: &str) -> Self {
        Self::These(text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }

    /// Refuses an event whose topic is not allowed, or whose stream would be a key of an outbox. `topic` is `None`
    /// if the stream comes from the template.
    pub(super) fn check(&self, topic: Option<&str>, stream: &str) -> Result<(), Unsendable> {
        if stream.is_empty() {
            return Err(Unsendable::new("the name of the stream is empty"));
        }
        if is_outbox_key(stream) {
            return Err(Unsendable::new(format!(
                "the stream {stream} would overwrite a key of an outbox: give the event another topic"
            )));
        }
        match topic.filter(|topic| !self.allows(topic)) {
            None => Ok(()),
            Some(topic) => Err(Unsendable::new(format!(
                "the event has the topic {topic}, which the setting `topics` does not allow: add it there, or \
                 give the event another topic"
            ))),
        }
    }

    fn allows(&self, topic: &str) -> bool {
        let Self::These(names) = self else { return true };
        names.iter().any(|name| match name.strip_suffix('*') {
            Some(beginning) => topic.starts_with(beginning),
            None => topic == name,
        })
    }
}

/// Whether a key has the form of an outbox's keys in Redis, for example `{outbox:0}:pending`: a tag of a name and a
/// number, followed by one word. Writing a stream to such a key would stop the outbox.
fn is_outbox_key(name: &str) -> bool {
    let parts = || {
        let (tag, word) = name.strip_prefix('{')?.split_once("}:")?;
        let (outbox, shard) = tag.rsplit_once(':')?;
        Some((outbox, shard, word))
    };
    parts().is_some_and(|(outbox, shard, word)| {
        let is_number = !shard.is_empty() && shard.bytes().all(|byte| byte.is_ascii_digit());
        let is_word = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        !outbox.is_empty() && is_number && is_word
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_an_outbox_are_recognised_by_their_form() {
        for key in ["{outbox:0}:dead", "{outbox:0}:expiry-due", "{shop.eu:17}:entries", "{outbox:0}:settings"]
        {
            assert!(is_outbox_key(key), "{key}");
            assert!(
                AllowedTopics::Any.check(Some(key), key).is_err()
                    && AllowedTopics::Any.check(None, key).is_err(),
                "{key}"
            );
        }
        for key in [
            "orders",
            "{outbox:0}",
            "{outbox:0}:ticket:17",
            "{outbox}:dead",
            "{outbox:x}:dead",
            "outbox:0:dead",
        ] {
            assert!(!is_outbox_key(key), "{key}");
            assert_eq!(AllowedTopics::Any.check(Some(key), key), Ok(()), "{key}");
        }
    }

    #[test]
    fn allow_list_applies_to_topics_of_events_and_not_to_the_template() {
        let topics = AllowedTopics::parse("shop:*,audit");
        for (topic, is_allowed) in
            [("shop:orders", true), ("shop:", true), ("audit", true), ("audit2", false), ("shop", false)]
        {
            assert_eq!(topics.check(Some(topic), topic).is_ok(), is_allowed, "{topic}");
        }
        assert_eq!(topics.check(None, "other"), Ok(()));
        assert!(AllowedTopics::parse("").check(Some("any"), "any").is_err(), "an empty list allows no topic");
    }
}
