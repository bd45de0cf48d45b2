//! Templates for topics, subjects, routing keys and streams, filled with values of an event.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use posthaste::Event;

use crate::unsendable::Unsendable;

/// A text with placeholders: `orders`, `shop.{aggregate_type}`, `{tenant_id}.{event_type}`.
///
/// The placeholders are `{event_type}`, `{aggregate_type}`, `{aggregate_id}`, `{tenant_id}` and `{header:NAME}`.
/// `{{` and `}}` are literal braces. An event that has no value for a placeholder is refused, and DEAD with the
/// reason.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    EventType,
    AggregateType,
    AggregateId,
    TenantId,
    Header(String),
}

/// A template that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateError {
    #[error(
        "`{{{0}}}` is not a placeholder: write {{event_type}}, {{aggregate_type}}, {{aggregate_id}}, {{tenant_id}} or {{header:NAME}}"
    )]
    Unknown(String),
    #[error("a brace is not closed: write {{{{ for a literal brace")]
    Open,
    #[error("a closing brace has no opening brace: write }}}} for a literal brace")]
    Closed,
    #[error("it is empty")]
    Empty,
}

impl Template {
    /// Returns the event's own topic if it has one, and otherwise the template filled with the event's values.
    pub(crate) fn target<'a>(&'a self, event: &'a Event) -> Result<Cow<'a, str>, Unsendable> {
        match event.topic().or(self.as_text()) {
            Some(name) => Ok(name.into()),
            None => self.fill(event).map(Cow::Owned),
        }
    }

    /// Replaces the placeholders with the event's values.
    pub(crate) fn fill(&self, event: &Event) -> Result<String, Unsendable> {
        let mut name = String::new();
        for part in &self.parts {
            name.push_str(part.of(event).ok_or_else(|| self.refuse(part))?);
        }
        Ok(name)
    }

    /// The text of a template without placeholders.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The text with `any` for each placeholder.
    pub(crate) fn pattern(&self, any: &str) -> String {
        let filled = self.parts.iter().map(|part| if let Part::Text(text) = part { text } else { any });
        filled.collect()
    }

    fn refuse(&self, part: &Part) -> Unsendable {
        Unsendable::new(format!("the event has no value for {part} of {self}"))
    }
}

impl Part {
    fn of<'a>(&'a self, event: &'a Event) -> Option<&'a str> {
        match self {
            Self::Text(text) => Some(text),
            Self::EventType => Some(event.event_type()),
            Self::AggregateType => Some(event.aggregate_type()),
            Self::AggregateId => event.aggregate_id(),
            Self::TenantId => event.tenant_id(),
            Self::Header(name) => event.headers().get(name).map(String::as_str),
        }
    }

    fn named(name: &str) -> Result<Self, TemplateError> {
        Ok(match name {
            "event_type" => Self::EventType,
            "aggregate_type" => Self::AggregateType,
            "aggregate_id" => Self::AggregateId,
            "tenant_id" => Self::TenantId,
            _ => match name.strip_prefix("header:") {
                Some(header) if !header.is_empty() => Self::Header(header.to_owned()),
                _ => return Err(TemplateError::Unknown(name.to_owned())),
            },
        })
    }
}

impl FromStr for Template {
    type Err = TemplateError;

    fn from_str(template: &str) -> Result<Self, TemplateError> {
        let (mut parts, mut text, mut rest) = (Vec::new(), String::new(), template);
        while let Some(at) = rest.find(['{', '}']) {
            text.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(behind) = rest.strip_prefix(brace) {
                text.push_str(brace);
                rest = behind;
                continue;
            }
            if brace == "}" {
                return Err(TemplateError::Closed);
            }
            let (name, behind) = rest.split_once('}').ok_or(TemplateError::Open)?;
            if !text.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut text)));
            }
            parts.push(Part::named(name)?);
            rest = behind;
        }
        text.push_str(rest);
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        if parts.is_empty() { Err(TemplateError::Empty) } else { Ok(Self { parts }) }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(&text.replace('{', "{{").replace('}', "}}")),
            Self::EventType => f.write_str("{event_type}"),
            Self::AggregateType => f.write_str("{aggregate_type}"),
            Self::AggregateId => f.write_str("{aggregate_id}"),
            Self::TenantId => f.write_str("{tenant_id}"),
            Self::Header(name) => write!(f, "{{header:{name}}}"),
        }
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| part.fmt(f))
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Event {
        let event = Event::builder("OrderPlaced").aggregate("Order", "o-17").header("region", "eu");
        event.json_text("{}").build().expect("a good event")
    }

    fn filled(template: &str) -> Result<String, Unsendable> {
        template.parse::<Template>().expect("a template").fill(&order())
    }

    #[test]
    fn values_of_the_event_replace_the_placeholders() {
        for (template, name) in [
            ("orders", "orders"),
            ("shop.{aggregate_type}.{event_type}", "shop.Order.OrderPlaced"),
            ("{aggregate_id}", "o-17"),
            ("{header:region}-{{x}}", "eu-{x}"),
        ] {
            assert_eq!(filled(template).as_deref(), Ok(name), "{template}");
            assert_eq!(template.parse::<Template>().expect("a template").to_string(), template);
        }
    }

    #[test]
    fn values_are_not_read_as_templates() {
        let event = Event::builder("{tenant_id}").json_text("{}").build().expect("a good event");
        let template: Template = "{event_type}".parse().expect("a template");
        assert_eq!(template.fill(&event).as_deref(), Ok("{tenant_id}"));
    }

    #[test]
    fn event_without_a_value_for_a_placeholder_is_refused() {
        let refused = filled("{tenant_id}.orders").expect_err("no tenant");
        assert_eq!(refused.to_string(), "the event has no value for {tenant_id} of {tenant_id}.orders");
        assert!(filled("{header:Region}").is_err());
    }

    #[test]
    fn topic_of_the_event_takes_precedence() {
        let event =
            Event::builder("OrderPlaced").topic("special").json_text("{}").build().expect("a good event");
        let template: Template = "{tenant_id}".parse().expect("a template");
        assert_eq!(template.target(&event).as_deref(), Ok("special"));
    }

    #[test]
    fn errors_say_how_to_write_the_template() {
        for (template, error) in [
            ("{", TemplateError::Open),
            ("a}", TemplateError::Closed),
            ("", TemplateError::Empty),
            ("{type}", TemplateError::Unknown("type".to_owned())),
            ("{header:}", TemplateError::Unknown("header:".to_owned())),
        ] {
            assert_eq!(template.parse::<Template>(), Err(error), "{template}");
        }
    }
}
