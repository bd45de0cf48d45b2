//! Which streams an event may go to. A stream is a key like any other, and an event brings its own name for it.

use crate::unsendable::Unsendable;

/// The topics that events may name as their streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum AllowedTopics {
    /// Any name but those of an outbox.
    #[default]
    Any,
    /// Names, and beginnings of names with a `*` behind them.
    These(Vec<String>),
}

impl AllowedTopics {
    /// Names with commas between them, as they stand in a URL.
    pub(super) fn parse(text: &str) -> Self {
        Self::These(text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }

    /// Refuses the stream of an event that names a topic which it may not name, and every key of an outbox.
    pub(super) fn check(&self, topic: Option<&str>, stream: &str) -> Result<(), Unsendable> {
        if stream.is_empty() {
            return Err(Unsendable::new("the stream has no name: it is empty"));
        }
        if is_outbox_key(stream) {
            return Err(Unsendable::new(format!(
                "the stream would be {stream}, which is a key of an outbox: give the event another topic"
            )));
        }
        match topic.filter(|topic| !self.allows(topic)) {
            None => Ok(()),
            Some(topic) => Err(Unsendable::new(format!(
                "the event names the topic {topic}, which the setting `topics` does not allow: add it there, or \
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

/// Whether a key has the form of those that an outbox has in Redis, `{outbox:0}:pending` for example: a tag with a
/// name and a number, and one word behind it. As a stream, such a key would end the outbox's service.
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
    fn keys_of_an_outbox_are_known_by_their_form() {
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
    fn topics_that_are_not_allowed_are_refused_and_the_template_is_not_asked() {
        let topics = AllowedTopics::parse("shop:*,audit");
        for (topic, is_allowed) in
            [("shop:orders", true), ("shop:", true), ("audit", true), ("audit2", false), ("shop", false)]
        {
            assert_eq!(topics.check(Some(topic), topic).is_ok(), is_allowed, "{topic}");
        }
        assert_eq!(topics.check(None, "other"), Ok(()));
        assert!(AllowedTopics::parse("").check(Some("any"), "any").is_err(), "no topic at all");
    }
}
