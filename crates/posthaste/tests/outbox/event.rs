//! The rules of an event, each at its boundary and with its own error; ids; what is shared between clones and what is
//! kept secret.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::error::Error as _;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use posthaste::{
    AggregateType, Event, EventBuilder, EventError, EventId, EventParts, EventType, GLOBAL, Headers,
    IdPolicy, Limits, Timestamp,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

const MIB: usize = 1_048_576;

pub(crate) fn valid_event() -> EventBuilder {
    Event::builder("Made").json_text("{}")
}

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

macro_rules! assert_refused {
    ($builder:expr, $error:pat) => {
        match $builder.build() {
            Err($error) => {}
            other => panic!("{other:?}"),
        }
    };
}
pub(crate) use assert_refused;

/// A field, the longest length of its name, and a builder with that name set.
type NameRule = (&'static str, usize, fn(&str) -> EventBuilder);

/// Every name of an event: its field, the most characters, and how it is set.
const NAME_RULES: [NameRule; 6] = [
    ("event_type", 128, |name| Event::builder(name).json_text("{}")),
    ("aggregate_type", 64, |name| valid_event().aggregate_type(name)),
    ("aggregate_id", 128, |name| valid_event().aggregate_id(name)),
    ("tenant_id", 64, |name| valid_event().tenant_id(name)),
    ("topic", 255, |name| valid_event().topic(name)),
    ("content_type", 128, |name| Event::builder("Made").bytes(name, "x")),
];

// S2-19, S3-31, S3-32, S3-33, S3-34, S3-36, S3-46
#[test]
fn event_of_a_type_and_a_payload_has_the_default_of_everything_else() {
    let before = Timestamp::now();
    let event = Event::json("Made", &1).expect("good");
    let after = Timestamp::now();

    assert_eq!((event.event_type(), event.payload().as_ref()), ("Made", b"1".as_slice()));
    assert_eq!(event.id().as_str().len(), 36);
    assert_eq!(event.aggregate_type(), "__GLOBAL__");
    assert_eq!((event.aggregate_id(), event.tenant_id(), event.topic()), (None, None, None));
    assert_eq!((event.content_type(), event.schema_version()), (None, None));
    assert_eq!(event.headers(), &Headers::new());
    assert!((before..=after).contains(&event.occurred_at()));
    assert_eq!((event.available_at(), event.delay(), event.is_delayed()), (None, None, false));
}

// S2-19
#[test]
fn event_keeps_every_field_it_was_given() {
    let event = Event::builder("Made")
        .id("e-1")
        .aggregate("Order", 17)
        .tenant_id("acme")
        .topic("orders")
        .schema_version(3)
        .header("region", "eu")
        .headers([("trace", "abc"), ("region", "us")])
        .json_text(r#"{ "total": 42 }"#)
        .occurred_at(at(100))
        .available_at(at(160))
        .build()
        .expect("good");

    assert_eq!(event.id(), &EventId::from("e-1"));
    assert_eq!((event.aggregate_type(), event.aggregate_id()), ("Order", Some("17")));
    assert_eq!((event.tenant_id(), event.topic()), (Some("acme"), Some("orders")));
    assert_eq!(event.schema_version(), Some(3));
    let headers: Vec<_> = event.headers().iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(headers, [("region", "us"), ("trace", "abc")], "the later of one name, sorted");
    assert_eq!(event.payload().as_ref(), br#"{ "total": 42 }"#, "byte for byte");
    assert_eq!((event.occurred_at(), event.available_at()), (at(100), Some(at(160))));
}

// S3-32
#[test]
fn event_without_a_type_is_refused() {
    for blank in ["", " ", " \t\n", "\u{2003}"] {
        assert_refused!(Event::builder(blank).json_text("{}"), EventError::MissingType);
    }
}

// S3-35
#[test]
fn event_without_a_payload_is_refused() {
    assert_refused!(Event::builder("Made"), EventError::MissingPayload { .. });
    let error = Event::builder("Made").build().expect_err("no payload");
    assert!(error.to_string().contains("\"Made\""), "{error}");
}

// S3-32, S3-50: the columns count characters, not bytes.
#[test]
fn name_may_have_as_many_characters_as_its_column_and_not_one_more() {
    for (name, max, with) in NAME_RULES {
        for character in ["a", "ü", "𝄞"] {
            with(&character.repeat(max)).build().expect(name);
            match with(&character.repeat(max + 1)).build() {
                Err(EventError::TooLong { field, chars, max: allowed }) => {
                    assert_eq!((field, chars, allowed), (name, max + 1, max));
                }
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}

#[test]
fn empty_name_is_refused_instead_of_ignored() {
    for (name, _, with) in &NAME_RULES[1..] {
        match with("").build() {
            Err(EventError::Empty { field }) => assert_eq!(field, *name),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn control_character_in_any_name_is_refused() {
    for (name, _, with) in NAME_RULES {
        for control in ['\0', '\n', '\r', '\t', '\u{1b}', '\u{7f}', '\u{85}', '\u{9f}'] {
            match with(&format!("a{control}b")).build() {
                Err(EventError::ControlCharacter { field, character }) => {
                    assert_eq!((field, character), (name, control));
                }
                other => panic!("{name} with {control:?}: {other:?}"),
            }
        }
    }
}

#[test]
fn name_may_have_spaces_and_any_script() {
    for (name, _, with) in NAME_RULES {
        with("größe 注文 \u{a0}:/*%_'\"\\").build().expect(name);
    }
}

// S3-31
#[test]
fn default_ids_are_uuids_of_version_7_that_sort_in_the_order_they_were_made() {
    let before = millis_of(SystemTime::now());
    let ids: Vec<EventId> =
        (0..10_000).map(|_| Event::json("Made", &()).expect("good").id().clone()).collect();
    let after = millis_of(SystemTime::now());

    assert!(ids.is_sorted_by(|one, next| one < next), "each greater than the one before");
    for id in &ids {
        let uuid = Uuid::try_parse(id.as_str()).expect("a UUID");
        assert_eq!((uuid.get_version_num(), uuid.to_string()), (7, id.to_string()));
    }
    let (first, last) = (Uuid::try_parse(ids[0].as_str()), Uuid::try_parse(ids[9_999].as_str()));
    let millis = |uuid: Uuid| u128::from(uuid.get_timestamp().expect("version 7").to_unix().0) * 1000;
    assert!(millis(first.expect("a UUID")) + 1000 > before);
    assert!(millis(last.expect("a UUID")) <= after + 1000);
}

fn millis_of(time: SystemTime) -> u128 {
    time.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_millis()
}

// S3-31
#[test]
fn ulids_of_one_process_only_grow() {
    let ids: Vec<EventId> = (0..10_000).map(|_| EventId::ulid()).collect();
    assert!(ids.is_sorted_by(|earlier, later| earlier < later));
}

// S3-31
#[test]
fn ulid_policy_makes_ulids_of_the_present() {
    let before = u64::try_from(millis_of(SystemTime::now())).expect("this age");
    let event = valid_event().id_policy(IdPolicy::Ulid).build().expect("good");
    let after = u64::try_from(millis_of(SystemTime::now())).expect("this age");
    let ulid = ulid::Ulid::from_string(event.id().as_str()).expect("a ULID");
    assert_eq!(event.id().as_str().len(), 26);
    assert!((before..=after).contains(&ulid.timestamp_ms()));
    assert_ne!(IdPolicy::Ulid.generate(), IdPolicy::Ulid.generate());
}

#[test]
fn uuid_v3_depends_on_the_name_only() {
    let id = |name: &str| EventId::uuid_v3(&Uuid::NAMESPACE_DNS, name.as_bytes());
    // The value that every implementation of RFC 9562 returns.
    assert_eq!(id("www.example.com"), "5df41881-3aed-3515-88a7-2f4a814cf09e");
    assert_eq!(id("a"), id("a"));
    assert_ne!(id("a"), id("b"));
    assert_ne!(id("a"), EventId::uuid_v3(&Uuid::NAMESPACE_URL, b"a"));
    valid_event().id(id("a")).build().expect("good");
}

// S2-19
#[test]
fn id_of_the_caller_is_kept_and_overrides_the_policy() {
    for id in ["x", "order:17/placed#1~!", &"i".repeat(36)] {
        let event = valid_event().id(id).id_policy(IdPolicy::Ulid).build().expect("good");
        assert_eq!(event.id(), &EventId::from(id));
    }
}

#[test]
fn id_that_is_not_1_to_36_visible_ascii_characters_is_refused() {
    let long = "i".repeat(37);
    for bad in ["", " ", "a b", "a\n", "a\0", "ü", "a\u{7f}", &long] {
        match valid_event().id(bad).build() {
            Err(EventError::BadId { id }) => assert_eq!(id, bad),
            other => panic!("{bad:?}: {other:?}"),
        }
    }
    let Err(EventError::BadId { id }) = valid_event().id("i".repeat(MIB)).build() else {
        panic!("far too long")
    };
    assert_eq!(id.len(), 80, "an error is no place for a megabyte");
}

// S3-37
#[test]
fn payload_may_have_one_mebibyte_and_not_one_byte_more() {
    let bytes = |n| Event::builder("Made").bytes("text/plain", vec![b'x'; n]);
    bytes(MIB).build().expect("exactly the limit");
    assert_refused!(bytes(MIB + 1), EventError::PayloadTooLarge { bytes: 1_048_577, max: MIB });

    let text = |n| Event::builder("Made").json(&"x".repeat(n));
    assert_eq!(text(MIB - 2).build().expect("two quotes more").payload().len(), MIB);
    assert_refused!(text(MIB - 1), EventError::PayloadTooLarge { bytes: 1_048_577, .. });
}

// S3-37
#[test]
fn payloads_limit_can_be_set_either_way() {
    let with = |n, payload_bytes| {
        Event::builder("Made")
            .bytes("text/plain", vec![0; n])
            .limits(Limits::default().with_payload_bytes(payload_bytes))
    };
    with(MIB + 1, MIB + 1).build().expect("raised");
    with(10, 10).build().expect("lowered");
    assert_refused!(with(11, 10), EventError::PayloadTooLarge { bytes: 11, max: 10 });
    with(0, 0).build().expect("an empty payload is a payload");
}

// S3-40
#[test]
fn header_needs_a_name_of_visible_ascii_without_colons() {
    assert_refused!(valid_event().header("", "x"), EventError::EmptyHeaderName);
    for bad in ["a:b", ":", "a b", " ", "a\r", "a\n", "a\0", "ü", "a\u{7f}"] {
        match valid_event().header(bad, "x").build() {
            Err(EventError::BadHeaderName { name }) => assert_eq!(name, bad),
            other => panic!("{bad:?}: {other:?}"),
        }
    }
    valid_event().header("x-Trace_id.1!", "").build().expect("an empty value is a value");
}

#[test]
fn header_value_cannot_smuggle_a_second_header() {
    for bad in ["a\r\nb: c", "\n", "\r", "\0", "a\tb", "\u{85}"] {
        match valid_event().header("good", "x").header("bad", bad).build() {
            Err(EventError::BadHeaderValue { name }) => assert_eq!(name, "bad"),
            other => panic!("{bad:?}: {other:?}"),
        }
    }
    valid_event().header("name", "größe: 1; 注文").build().expect("text of any script");
}

#[test]
fn event_may_have_64_headers_and_not_one_more() {
    let with = |n: usize| valid_event().headers((0..n).map(|n| (format!("h{n}"), "v")));
    assert_eq!(with(64).build().expect("exactly the limit").headers().len(), 64);
    assert_refused!(with(65), EventError::TooManyHeaders { count: 65 });
}

#[test]
fn headers_may_have_16_kib_of_names_and_values_together_and_not_one_byte_more() {
    let with = |value: usize| valid_event().header("ab", "é".repeat(4000)).header("cde", "x".repeat(value));
    let room = 16_384 - 2 - 8_000 - 3;
    with(room).build().expect("exactly the limit");
    assert_refused!(with(room + 1), EventError::HeadersTooLarge { bytes: 16_385 });
}

#[test]
fn text_that_is_not_json_is_refused() {
    for text in ["", " ", "{", "{}}", "{'a':1}", "nope", "[1,]", "NaN", "\u{feff}{}"] {
        let error = Event::builder("Made").json_text(text).build().expect_err(text);
        assert!(
            matches!(&error, EventError::NotJson { event_type, .. } if event_type == "Made"),
            "{error:?}"
        );
        assert!(error.source().is_some() && error.to_string().contains("Event::bytes"), "{error}");
    }
    for text in ["{}", " [1, 2] ", "null", "\"ü\"", "0", "1e400"] {
        let event = Event::builder("Made").json_text(text).build().expect(text);
        assert_eq!(event.payload().as_ref(), text.as_bytes());
    }
}

#[test]
fn payload_that_cannot_be_serialised_is_refused_with_its_reason() {
    let error = Event::json("Made", &BTreeMap::from([((1, 2), 3)])).expect_err("keys are no text");
    assert!(matches!(&error, EventError::Serialize { event_type, .. } if event_type == "Made"), "{error:?}");
    assert!(error.source().is_some_and(|source| source.to_string().contains("key")), "{error:?}");
}

#[derive(Serialize, Deserialize, Event, Debug, PartialEq)]
#[event(type = "OrderPlaced", aggregate = "Order")]
struct OrderPlaced {
    #[event(aggregate_id)]
    order: u64,
    note: String,
}

// S3-39
#[test]
fn payload_reads_back_as_the_type_it_was_made_of() {
    let order = OrderPlaced { order: 17, note: "größe \u{0}\n".to_owned() };
    let event = Event::json("Made", &order).expect("good");
    assert_eq!(event.payload_as::<OrderPlaced>().expect("the same type"), order);
}

// S3-39
#[test]
fn error_for_a_payload_of_another_type_names_the_event() {
    let event = valid_event().id("e-1").build().expect("good");
    let error = event.payload_as::<OrderPlaced>().expect_err("no order");
    assert!(matches!(&error, EventError::Deserialize { id, .. } if id == event.id()), "{error:?}");
    assert!(error.to_string().contains("e-1") && error.to_string().contains("Made"), "{error}");
    assert!(error.source().is_some_and(|source| source.to_string().contains("order")), "{error:?}");
}

#[test]
fn binary_payload_is_kept_with_its_content_type() {
    let event = Event::bytes("Made", "application/protobuf", vec![0xff, 0x00, 0xfe]).expect("good");
    assert_eq!(event.payload().as_ref(), [0xff, 0x00, 0xfe]);
    assert_eq!(event.content_type(), Some("application/protobuf"));
    assert!(matches!(event.payload_as::<u8>(), Err(EventError::Deserialize { .. })));
}

#[test]
fn event_with_two_payloads_is_refused_instead_of_losing_the_first() {
    let builder = || Event::builder("Made");
    assert_refused!(builder().bytes("text/plain", "x").json(&1), EventError::TwoPayloads { .. });
    assert_refused!(builder().json_text("1").bytes("text/plain", "x"), EventError::TwoPayloads { .. });
    assert_refused!(builder().json(&1).json(&1).json(&1), EventError::TwoPayloads { .. });
}

/// A payload that counts how often it is serialised.
struct Counted<'a>(&'a Cell<u32>);

impl Serialize for Counted<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.set(self.0.get() + 1);
        serializer.serialize_u32(7)
    }
}

// S0-06, S2-20
#[test]
fn payload_is_serialised_once_and_its_bytes_are_shared_by_every_copy() {
    let count = Cell::new(0);
    let event = Event::json("Made", &Counted(&count)).expect("good");
    let copies = [event.clone(), Event::from_parts(event.to_parts()), event.clone().clone()];
    for copy in &copies {
        assert_eq!(copy.payload().as_ptr(), event.payload().as_ptr());
        assert_eq!(copy.payload_as::<u32>().expect("a number"), 7);
    }
    assert_eq!(count.get(), 1);
}

// S0-06
#[test]
fn bytes_that_the_caller_shares_are_not_copied() {
    let payload = Bytes::from(vec![1; 1000]);
    let event = Event::bytes("Made", "application/octet-stream", payload.clone()).expect("good");
    assert_eq!(event.payload().as_ptr(), payload.as_ptr());
}

// S3-38
#[test]
fn changing_a_copy_of_the_fields_does_not_change_the_event() {
    let event = valid_event().header("a", "b").aggregate("Order", 1).build().expect("good");
    let mut parts = event.to_parts();
    parts.headers.clear();
    parts.aggregate_id = None;
    assert_eq!(event.headers()["a"], "b");
    assert_eq!(event.aggregate_id(), Some("1"));
    assert_eq!(Event::from_parts(parts).aggregate_id(), None);
}

// Limits are checked when an event is written: a row that another program wrote is delivered unchanged.
#[test]
fn row_that_breaks_every_rule_is_read_unchanged() {
    let parts = EventParts {
        id: EventId::from("ü ".repeat(50)),
        event_type: "".into(),
        aggregate_type: "\0".repeat(100).into(),
        aggregate_id: Some("".into()),
        tenant_id: Some("\n".into()),
        topic: Some("t".repeat(256).into()),
        content_type: None,
        schema_version: Some(u32::MAX),
        headers: Headers::from([(String::new(), "\r\n".to_owned())]),
        payload: Bytes::from_static(b"\xff not JSON"),
        occurred_at: at(100),
        available_at: Some(at(40)),
    };
    assert!(Limits::default().check(&parts).is_err(), "it could not be written");

    let event = Event::from_parts(parts.clone());
    let read = event.parts();
    assert_eq!((&read.id, &read.event_type, &read.topic), (&parts.id, &parts.event_type, &parts.topic));
    assert_eq!((&read.aggregate_type, &read.aggregate_id), (&parts.aggregate_type, &parts.aggregate_id));
    assert_eq!((&read.tenant_id, &read.headers), (&parts.tenant_id, &parts.headers));
    assert_eq!(event.payload(), &parts.payload);
    assert_eq!((event.schema_version(), event.available_at()), (Some(u32::MAX), Some(at(40))));
    assert_eq!(
        (event.delay(), event.is_delayed()),
        (None, false),
        "a time before it occurred means immediately"
    );
}

enum UserEvents {
    Created,
    Deleted,
}

impl EventType for UserEvents {
    fn name(&self) -> &str {
        match self {
            UserEvents::Created => "UserCreated",
            UserEvents::Deleted => "UserDeleted",
        }
    }
}

struct User;

impl AggregateType for User {
    fn name(&self) -> &str {
        "User"
    }
}

// S3-47, S3-50
#[test]
fn types_are_named_by_enums_or_by_text() {
    for (kind, name) in [(UserEvents::Created, "UserCreated"), (UserEvents::Deleted, "UserDeleted")] {
        let event = Event::builder(kind).aggregate(User, "u-1").json_text("{}").build().expect("good");
        assert_eq!((event.event_type(), event.aggregate_type()), (name, "User"));
    }
    let dynamic = format!("User{}", "Created");
    let event = Event::builder(&dynamic).aggregate_type(dynamic.clone()).json_text("{}").build();
    assert_eq!(event.expect("good").aggregate_type(), "UserCreated");
    let global = valid_event().aggregate_type(GLOBAL).build().expect("good");
    assert_eq!(global.aggregate_type(), valid_event().build().expect("good").aggregate_type());
}

// S3-47
#[test]
fn typed_event_sets_its_names_and_can_be_extended() {
    let order = OrderPlaced { order: 17, note: String::new() };
    let plain = Event::of(&order).expect("good");
    assert_eq!((plain.event_type(), plain.aggregate_type()), ("OrderPlaced", "Order"));
    assert_eq!(plain.aggregate_id(), Some("17"));
    let more = EventBuilder::of(&order).header("a", "b").deliver_after(secs(1)).build().expect("good");
    assert_eq!((more.headers()["a"].as_str(), more.is_delayed()), ("b", true));
}

#[test]
fn debug_shows_neither_payload_nor_header_values() {
    let builder = || Event::builder("Made").id("e-1").header("authorization", "sEcret").json(&"sEcret");
    let event = builder().build().expect("good");
    for shown in [format!("{event:?}"), format!("{event:#?}"), format!("{:?}", event.parts())] {
        assert!(!shown.contains("sEcret"), "{shown}");
        assert!(shown.contains("e-1") && shown.contains("authorization"), "{shown}");
        assert!(shown.contains("8 bytes"), "{shown}");
    }
    for builder in [builder(), builder().json_text("sEcret"), builder().bytes("text/plain", "sEcret")] {
        let shown = format!("{builder:?}");
        assert!(!shown.contains("sEcret") && !shown.contains("115, 69"), "{shown}");
        assert!(shown.contains("e-1") && shown.contains("authorization"), "{shown}");
    }
}

#[test]
fn refusal_shows_neither_payload_nor_header_values() {
    for builder in [
        valid_event().header("authorization", "sEcret\n"),
        Event::builder("Made").json_text("{\"a\": sEcret"),
        Event::builder("Made").bytes("text/plain", "sEcret").limits(Limits::default().with_payload_bytes(1)),
    ] {
        let error = builder.build().expect_err("broken");
        assert!(!format!("{error} {error:?}").contains("sEcret"), "{error:?}");
    }
}

#[test]
fn refusal_has_the_next_step() {
    let headers =
        |n: usize, size: usize| valid_event().headers((0..n).map(|n| (n.to_string(), "v".repeat(size))));
    for (builder, advice) in [
        (Event::builder(""), "give `Event::builder` a name"),
        (Event::builder("Made"), "call `json`, `json_text` or `bytes`"),
        (valid_event().topic("t".repeat(256)), "topic has 256 characters, 255 are allowed: shorten it"),
        (valid_event().tenant_id(""), "tenant_id is empty: leave it out"),
        (valid_event().topic("a\nb"), "topic contains the control character '\\n': remove it"),
        (valid_event().id(""), "must be 1 to 36 visible ASCII characters"),
        (valid_event().json(&1), "has two payloads"),
        (Event::builder("Made").json(&"x".repeat(MIB)), "raise `Limits::payload_bytes`"),
        (Event::builder("Made").json_text("x"), "use `Event::bytes`"),
        (valid_event().header("", "x"), "name it or leave it out"),
        (valid_event().header("a b", "x"), "must be visible ASCII without spaces or colons"),
        (valid_event().header("a", "\n"), "encode it"),
        (headers(65, 1), "64 are allowed: move some into the payload"),
        (headers(2, 10_000), "16384 are allowed: move some into the payload"),
        (valid_event().available_at(at(0)).deliver_after(secs(1)), "keep one"),
        (valid_event().deliver_after(Duration::ZERO), "leave it out to deliver immediately"),
        (valid_event().available_at(at(0)), "lies before `occurred_at`"),
    ] {
        let error = builder.build().expect_err(advice).to_string();
        assert!(error.contains(advice), "{error}");
    }
}
