//! Properties that hold for every input: retry arithmetic, the rules of an event, timestamps, and durations in a file.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use posthaste::store::Backoff;
use posthaste::{Config, Event, EventBuilder, EventError, Limits, RetryPolicy, Timestamp, decode_headers};
use proptest::prelude::*;
use serde_json::Value;

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Factors are floating-point numbers, which represent a year with an error of some dozens of nanoseconds.
const MAX_ROUNDING_ERROR: Duration = Duration::from_micros(1);

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn durations() -> impl Strategy<Value = Duration> {
    const SECOND: u128 = 1_000_000_000;
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        (0..5_000u64).prop_map(Duration::from_nanos),
        (0..100_000u64).prop_map(Duration::from_millis),
        any::<u64>().prop_map(Duration::from_nanos),
        // Powers of two, whose doublings would wrap to nothing.
        (0..94u32).prop_map(|n| Duration::new(((1 << n) / SECOND) as u64, ((1 << n) % SECOND) as u32)),
        (any::<u64>(), 0..1_000_000_000u32).prop_map(|(secs, nanos)| Duration::new(secs, nanos)),
    ]
}

fn counts() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..70u32, 1 => any::<u32>(), 1 => Just(u32::MAX)]
}

fn jitters() -> impl Strategy<Value = (f64, f64)> {
    let end = || prop_oneof![-1.0..12.0, proptest::num::f64::ANY];
    (end(), end())
}

fn policies() -> impl Strategy<Value = RetryPolicy> {
    (counts(), durations(), durations(), jitters()).prop_map(
        |(max_attempts, base_delay, max_delay, jitter)| {
            let policy =
                RetryPolicy::default().with_max_attempts(max_attempts).with_jitter(jitter.0, jitter.1);
            policy.with_base_delay(base_delay).with_max_delay(max_delay)
        },
    )
}

/// min(`max_delay`, a year, `base_delay` · 2^(n-1)), one doubling after the other.
fn capped(policy: &RetryPolicy, count: u32) -> Duration {
    let longest = policy.max_delay.min(YEAR);
    let mut delay = policy.base_delay.min(longest);
    for _ in 1..count {
        if delay.is_zero() || delay == longest {
            break;
        }
        delay = (delay * 2).min(longest);
    }
    delay
}

proptest! {
    #![proptest_config(config(2000))]

    // S2-46, S3-106
    #[test]
    fn any_retry_policy_has_a_delay_after_any_count(policy in policies(), count in counts()) {
        let delay = policy.delay(count);
        prop_assert!(delay <= capped(&policy, count) * 10 + MAX_ROUNDING_ERROR, "{delay:?}");
    }

    // S2-46, S3-107
    #[test]
    fn default_jitter_is_half_to_one_and_a_half_of_the_capped_delay(policy in policies(), count in counts()) {
        let policy = policy.with_jitter(0.5, 1.5);
        let (delay, capped) = (policy.delay(count), capped(&policy, count));
        prop_assert!(delay + MAX_ROUNDING_ERROR >= capped / 2, "{delay:?} of {capped:?}");
        prop_assert!(delay <= capped * 3 / 2 + MAX_ROUNDING_ERROR, "{delay:?} of {capped:?}");
        prop_assert!(delay <= policy.max_delay.min(YEAR) * 3 / 2 + MAX_ROUNDING_ERROR);
    }

    // S4-12
    #[test]
    fn without_jitter_delays_follow_the_formula_and_never_shrink(policy in policies(), count in counts()) {
        let policy = policy.without_jitter();
        let delay = policy.delay(count);
        prop_assert!(delay.abs_diff(capped(&policy, count)) <= MAX_ROUNDING_ERROR, "{delay:?}");
        prop_assert!(delay <= policy.delay(count.saturating_add(1)));
    }

    // S3-106
    #[test]
    fn jitter_that_is_not_a_number_is_no_jitter(policy in policies(), count in counts(), other in any::<f64>()) {
        for jitter in [(f64::NAN, other), (other, f64::NAN), (f64::INFINITY, other), (other, f64::INFINITY)] {
            let policy = policy.clone().with_jitter(jitter.0, jitter.1);
            let delay = policy.delay(count);
            prop_assert!(delay.abs_diff(capped(&policy, count)) <= MAX_ROUNDING_ERROR, "{jitter:?}: {delay:?}");
        }
    }

    // S2-45, S4-14
    #[test]
    fn backoff_is_a_short_list_and_ends_exactly_at_max_attempts(policy in policies(), count in counts()) {
        let policy = policy.without_jitter();
        let backoff = policy.backoff();
        prop_assert_eq!(backoff.max_attempts, policy.max_attempts);
        prop_assert!((1..=64).contains(&backoff.delays.len()));
        for count in [count, policy.max_attempts.saturating_sub(1), policy.max_attempts] {
            let expected = (count < policy.max_attempts).then(|| policy.delay(count));
            prop_assert_eq!(backoff.after(count), expected, "after {}", count);
        }
    }

    // A store may get any list, even one that no policy creates.
    #[test]
    fn any_list_of_delays_has_a_result_for_any_count(
        max_attempts in counts(), delays in proptest::collection::vec(durations(), 0..5), count in counts(),
    ) {
        let backoff = Backoff::new(max_attempts, delays.clone());
        match backoff.after(count) {
            None => prop_assert!(count >= max_attempts),
            Some(delay) => prop_assert!(delays.contains(&delay) || (delays.is_empty() && delay.is_zero())),
        }
    }
}

/// The input of a builder.
#[derive(Clone, Debug)]
struct Input {
    id: Option<String>,
    event_type: String,
    aggregate_type: Option<String>,
    aggregate_id: Option<String>,
    tenant_id: Option<String>,
    topic: Option<String>,
    headers: BTreeMap<String, String>,
    content_type: String,
    payload: usize,
    limit: usize,
}

impl Input {
    fn builder(&self) -> EventBuilder {
        let mut builder = Event::builder(&self.event_type)
            .headers(self.headers.clone())
            .bytes(&*self.content_type, vec![b'x'; self.payload])
            .limits(Limits::default().with_payload_bytes(self.limit));
        if let Some(id) = &self.id {
            builder = builder.id(&**id);
        }
        if let Some(name) = &self.aggregate_type {
            builder = builder.aggregate_type(name);
        }
        if let Some(id) = &self.aggregate_id {
            builder = builder.aggregate_id(id);
        }
        if let Some(tenant) = &self.tenant_id {
            builder = builder.tenant_id(&**tenant);
        }
        if let Some(topic) = &self.topic {
            builder = builder.topic(&**topic);
        }
        builder
    }

    /// The rules again, as the documentation states them.
    fn is_allowed(&self) -> bool {
        let name = |name: &str, max| {
            let chars: Vec<char> = name.chars().collect();
            !chars.is_empty() && chars.len() <= max && !chars.iter().any(|c| c.is_control())
        };
        let optional = |text: &Option<String>, max| text.as_ref().is_none_or(|text| name(text, max));
        let visible = |text: &str| !text.is_empty() && text.chars().all(|c| ('!'..='~').contains(&c));
        let header_bytes: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.id.as_ref().is_none_or(|id| visible(id) && id.len() <= 36)
            && name(&self.event_type, 128)
            && self.event_type.chars().any(|c| !c.is_whitespace())
            && optional(&self.aggregate_type, 64)
            && optional(&self.aggregate_id, 128)
            && optional(&self.tenant_id, 64)
            && optional(&self.topic, 255)
            && name(&self.content_type, 128)
            && self.headers.len() <= 64
            && header_bytes <= 16 * 1024
            && self.headers.keys().all(|name| visible(name) && !name.contains(':'))
            && self.headers.values().all(|value| !value.chars().any(char::is_control))
            && self.payload <= self.limit
    }
}

/// Mostly names that are valid or a little too long, seldom arbitrary text.
fn names(max: usize) -> impl Strategy<Value = String> {
    let about =
        proptest::collection::vec(prop_oneof![Just('a'), Just('ü'), Just('𝄞'), Just(' ')], 1..max + 3);
    let about = about.prop_map(|chars| format!("n{}", chars.into_iter().skip(1).collect::<String>()));
    prop_oneof![20 => "[a-zA-Z.]{1,12}", 10 => about, 1 => any::<String>()]
}

fn headers() -> impl Strategy<Value = BTreeMap<String, String>> {
    let name = prop_oneof![200 => "[!-9;-~]{1,12}", 1 => any::<String>()];
    let value = prop_oneof![200 => "\\PC{0,12}", 4 => "[a-zü]{200,500}", 1 => any::<String>()];
    let count = prop_oneof![6 => 0..4usize, 1 => 60..70usize];
    count.prop_flat_map(move |count| proptest::collection::btree_map(name.clone(), value.clone(), count))
}

fn inputs() -> impl Strategy<Value = Input> {
    let id = prop_oneof![10 => "[!-~]{1,38}", 1 => any::<String>()];
    let optional = |max| proptest::option::of(names(max));
    (
        proptest::option::of(id),
        names(128),
        (optional(64), optional(128), optional(64), optional(255)),
        headers(),
        names(128),
        (0..60usize, 40..100usize),
    )
        .prop_map(|(id, event_type, names, headers, content_type, (payload, limit))| {
            let (aggregate_type, aggregate_id, tenant_id, topic) = names;
            Input {
                id,
                event_type,
                aggregate_type,
                aggregate_id,
                tenant_id,
                topic,
                headers,
                content_type,
                payload,
                limit,
            }
        })
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(any::<String>(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(config(1000))]

    // S3-32, S3-33, S3-34, S3-37, S3-40
    #[test]
    fn event_is_accepted_exactly_if_it_keeps_every_rule(input in inputs()) {
        match input.builder().build() {
            Ok(event) => {
                prop_assert!(input.is_allowed(), "accepted: {event:?}");
                prop_assert_eq!(event.event_type(), &input.event_type);
                prop_assert_eq!(event.headers(), &input.headers);
                let limits = Limits::default().with_payload_bytes(input.limit);
                prop_assert!(limits.check(event.parts()).is_ok());
            }
            Err(error) => prop_assert!(!input.is_allowed(), "{error}"),
        }
    }

    #[test]
    fn any_text_anywhere_is_accepted_or_refused_without_a_panic(texts in any::<[String; 8]>()) {
        let [id, kind, aggregate, key, tenant, topic, name, value] = texts;
        let builder = Event::builder(&kind).json_text(&*value);
        let builder = builder.id(id).aggregate(aggregate, key).tenant_id(tenant).topic(topic);
        let _ = match builder.header(name, value).build() {
            Ok(event) => format!("{event:?}"),
            Err(error) => error.to_string(),
        };
    }

    #[test]
    fn name_with_any_control_character_is_refused(
        control in any::<char>().prop_filter("a control character", |c| c.is_control()),
        (before, after) in ("[a-zü]{1,20}", "[a-zü]{0,20}"),
    ) {
        let name = format!("{before}{control}{after}");
        let made = || Event::builder("Made").json_text("{}");
        for builder in [
            Event::builder(&name).json_text("{}"),
            made().aggregate_type(&name),
            made().aggregate_id(&name),
            made().tenant_id(&*name),
            made().topic(&*name),
            Event::builder("Made").bytes(&*name, "x"),
        ] {
            let error = builder.build().expect_err("a control character");
            let is_reported = matches!(error, EventError::ControlCharacter { character, .. } if character == control);
            prop_assert!(is_reported, "{error:?}");
        }
    }

    // S3-39, S2-20
    #[test]
    fn any_json_payload_reads_back_the_same(value in values()) {
        let event = Event::json("Made", &value).expect("small");
        prop_assert_eq!(&event.payload_as::<Value>().expect("JSON"), &value);
        let text = String::from_utf8(event.payload().to_vec()).expect("JSON is text");
        let again = Event::builder("Made").json_text(&*text).build().expect("JSON");
        prop_assert_eq!(again.payload(), event.payload());
    }

    #[test]
    fn text_is_taken_as_json_exactly_if_it_is_json(text in prop_oneof!["[\\[\\]{}\",:0-9a-z ]{0,8}", any::<String>()]) {
        let built = Event::builder("Made").json_text(&*text).build();
        prop_assert_eq!(built.is_ok(), serde_json::from_str::<Value>(&text).is_ok());
    }

    // S3-45, S3-46
    #[test]
    fn any_delay_resolves_and_the_store_gets_the_delay(occurred in any::<i64>(), delay in durations()) {
        let occurred = Timestamp::from_micros(occurred);
        match Event::builder("Made").json(&1).occurred_at(occurred).deliver_after(delay).build() {
            Err(error) => prop_assert!(delay.is_zero() && matches!(error, EventError::ZeroDelay)),
            Ok(event) => {
                prop_assert_eq!(event.available_at(), Some(occurred + delay));
                let left = (occurred + delay).since(Timestamp::now());
                prop_assert!(event.delay().unwrap_or_default() <= left + Duration::from_secs(60));
                prop_assert!(event.delay().unwrap_or_default() + Duration::from_secs(60) >= left);
                prop_assert_eq!(event.is_delayed(), occurred + delay > occurred);
            }
        }
    }

    #[test]
    fn headers_of_an_event_read_back_from_their_column(headers in headers()) {
        let column = serde_json::to_string(&headers).expect("text to text");
        prop_assert_eq!(decode_headers(Some(&column)), Ok(headers));
    }

    #[test]
    fn any_headers_column_is_read_or_refused_without_a_panic(text in any::<String>()) {
        let _ = decode_headers(Some(&text));
    }
}

fn instants() -> impl Strategy<Value = i64> {
    prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX), -5..5i64, 0..300_000_000_000_000_000i64]
}

/// 9999-12-31T23:59:59.999999Z
const MAX_RFC3339_MICROS: i64 = 253_402_300_799_999_999;

proptest! {
    #![proptest_config(config(1000))]

    #[test]
    fn arithmetic_on_instants_saturates(a in instants(), b in instants(), delay in durations()) {
        let (one, other) = (Timestamp::from_micros(a), Timestamp::from_micros(b));
        let micros = i128::try_from(delay.as_micros()).expect("fits");
        let clamp = |micros: i128| micros.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        // The delay itself is cut first: from the earliest timestamp even the longest reaches only 1970.
        let micros = micros.min(i64::MAX.into());
        prop_assert_eq!((one + delay).as_micros(), clamp(i128::from(a) + micros));
        prop_assert_eq!((one - delay).as_micros(), clamp(i128::from(a) - micros));
        let between = clamp((i128::from(a) - i128::from(b)).max(0));
        prop_assert_eq!((one - other).as_micros(), u128::try_from(between).expect("not negative"));
        prop_assert_eq!(one.since(other), one - other);
    }

    #[test]
    fn any_instant_prints_and_those_of_rfc_3339_as_such(micros in instants()) {
        let shown = Timestamp::from_micros(micros).to_string();
        if (0..=MAX_RFC3339_MICROS).contains(&micros) {
            let read = humantime::parse_rfc3339(&shown).expect("RFC 3339");
            prop_assert_eq!(Timestamp::from(read).as_micros(), micros);
        } else {
            prop_assert_eq!(shown, format!("{micros} µs since 1970"));
        }
    }

    // Durations have no sign, so the earliest timestamp of all moves by one microsecond.
    #[test]
    fn instants_survive_the_clock_of_this_host(micros in instants()) {
        let micros = micros.max(-i64::MAX);
        let time = SystemTime::from(Timestamp::from_micros(micros));
        prop_assert_eq!(Timestamp::from(time).as_micros(), micros);
    }

    // S3-17
    #[test]
    fn any_duration_reads_back_from_a_file(drain in durations(), grace in proptest::option::of(durations())) {
        let mut config = Config::default();
config.drain = drain;
config.no_route_grace = grace;
        let text = toml::to_string(&config).expect("a file");
        prop_assert_eq!(toml::from_str::<Config>(&text).expect(&text), config);
    }

    #[test]
    fn any_configuration_file_is_read_or_refused_without_a_panic(
        (workers, batch) in (any::<i64>(), any::<i64>()), interval in "[0-9]{0,25} ?(ns|us|ms|s|m|h|days|years|x)?",
    ) {
        let text = format!("workers = {workers}\n[poller]\nbatch = {batch}\ninterval = {interval:?}");
        if let Ok(config) = toml::from_str::<Config>(&text) {
            let _ = config.validate();
        }
    }
}
