//! The configuration, from code or from a file: its defaults, its presets, and what it refuses, all reported together.

use std::time::Duration;

use posthaste::config::{Fairness, LeaseConfig, PollerConfig, QueueConfig, Retention};
use posthaste::store::OnDone;
use posthaste::{Config, MemoryStore, Mode, Outbox, Recorder, RetryPolicy, Route, Routes};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

const fn days(n: u64) -> Duration {
    Duration::from_secs(n * 24 * 3600)
}

fn parse(text: &str) -> Result<Config, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

fn config(text: &str) -> Config {
    parse(text).expect(text)
}

/// The settings for which a configuration is refused, in the order in which they are reported.
fn refused_settings(config: &Config) -> Vec<String> {
    let problems = config.validate().err().map_or_else(Vec::new, |error| error.problems);
    problems.into_iter().map(|problem| problem.setting).collect()
}

const MODES: [Mode; 4] = [Mode::SingleNode, Mode::MultiNode, Mode::Strict, Mode::WriterOnly];

fn config_of(mode: Mode) -> Config {
    let mut config = Config::default();
    config.mode = mode;
    config
}

// S2-39, S2-45, S2-50, S3-21, S3-70, S3-89, S3-107, S3-111, S3-126
#[test]
fn every_default_is_the_documented_one() {
    let config = Config::default();
    assert_eq!((config.name.as_str(), config.mode), ("outbox", Mode::MultiNode));
    assert_eq!((config.workers, config.retry), (None, None), "left to the mode");
    assert_eq!(config.lease, LeaseConfig::default());
    assert_eq!((config.queue.hot, config.queue.cold), (1000, 1000));
    assert_eq!((config.queue.bytes, config.queue.fairness), (16_777_216, Fairness::Weighted));
    assert_eq!((config.poller.interval, config.poller.busy_interval), (secs(5), None));
    assert_eq!((config.poller.batch, config.poller.skip_recent), (50, Duration::ZERO));
    assert_eq!((config.purge.on_done, config.purge.age), (OnDone::Keep, None));
    assert_eq!(config.purge.done, Retention::delete_after(days(7)));
    assert_eq!((config.purge.dead.action, config.purge.dead.after), (OnDone::Keep, days(7)));
    assert_eq!((config.purge.interval, config.purge.batch), (secs(3600), 500));
    assert_eq!(config.metrics.prefix, "outbox");
    assert_eq!((config.handler_timeout, config.publish_timeout), (secs(60), secs(10)));
    assert_eq!((config.store_timeout, config.drain), (secs(10), secs(5)));
    assert_eq!((config.no_route_grace, config.payload_bytes), (None, 1_048_576));

    let retry = RetryPolicy::default();
    assert_eq!((retry.max_attempts, retry.jitter), (10, (0.5, 1.5)));
    assert_eq!((retry.base_delay, retry.max_delay), (millis(200), secs(60)));
    let lease = LeaseConfig::default();
    assert_eq!((lease.duration, lease.hot), (secs(30), secs(10)));
}

// S3-17
#[test]
fn empty_file_and_empty_sections_are_the_defaults() {
    assert_eq!(config(""), Config::default());
    assert_eq!(config("[queue]\n[poller]\n[purge]\n[metrics]"), Config::default());
    let sections = config("[retry]\n[lease]");
    assert_eq!((sections.retry, sections.lease), (Some(RetryPolicy::default()), LeaseConfig::default()));
}

#[test]
fn defaults_are_valid_in_every_mode() {
    for mode in MODES {
        assert_eq!(config_of(mode).validate(), Ok(()), "{mode:?}");
    }
}

const FULL_CONFIG: &str = r#"
    name = "orders"
    mode = "multi_node"
    workers = 8
    handler_timeout = "2m"
    publish_timeout = "15s 500ms"
    store_timeout = "3s"
    drain = "1m"
    no_route_grace = "20m"
    busy_grace = "2h"
    payload_bytes = 2097152

    [queue]
    hot = 10
    cold = 20
    bytes = 4194304
    fairness = "hot_first"

    [retry]
    max_attempts = 7
    base_delay = "150ms"
    max_delay = "2h"
    jitter = [0, 2.5]

    [poller]
    interval = "1s"
    busy_interval = "10ms"
    batch = 100
    skip_recent = "250ms"

    [lease]
    duration = "1m"
    hot = "5s"

    [purge]
    on_done = "archive"
    interval = "30m"
    batch = 1000
    done = { action = "archive", after = "30days" }
    dead = { action = "delete" }

    [metrics]
    prefix = "shop.outbox"
"#;

fn full_config() -> Config {
    let mut config = Config::default();
    config.name = "orders".to_owned();
    config.mode = Mode::MultiNode;
    config.workers = Some(8);
    config.queue = QueueConfig::default()
        .with_hot(10)
        .with_cold(20)
        .with_bytes(4_194_304)
        .with_fairness(Fairness::HotFirst);
    config.retry = Some(
        RetryPolicy::default()
            .with_max_attempts(7)
            .with_base_delay(millis(150))
            .with_max_delay(secs(7200))
            .with_jitter(0.0, 2.5),
    );
    config.poller.interval = secs(1);
    config.poller.busy_interval = Some(millis(10));
    config.poller.batch = 100;
    config.poller.skip_recent = millis(250);
    config.lease.duration = secs(60);
    config.lease.hot = secs(5);
    config.purge.on_done = OnDone::Archive;
    config.purge.done = Retention::archive_after(days(30));
    config.purge.dead = Retention::delete_after(days(7));
    config.purge.age = None;
    config.purge.archived = None;
    config.purge.interval = secs(1800);
    config.purge.batch = 1000;
    config.metrics.prefix = "shop.outbox".to_owned();
    config.handler_timeout = secs(120);
    config.publish_timeout = millis(15_500);
    config.store_timeout = secs(3);
    config.drain = secs(60);
    config.no_route_grace = Some(secs(1200));
    config.busy_grace = secs(7200);
    config.payload_bytes = 2_097_152;
    config
}

// S0-10, S0-21, S2-50, S3-17
#[test]
fn file_sets_every_setting() {
    assert_eq!(config(FULL_CONFIG), full_config());
    assert_eq!(full_config().validate(), Ok(()));
}

#[test]
fn configuration_written_to_a_file_reads_back_the_same() {
    let mut writer_only = Config::default();
    writer_only.mode = Mode::WriterOnly;
    writer_only.purge.age = Some(days(90));
    let others = [Config::default(), full_config(), Config::relay(), Config::kafka_polling(), writer_only];
    for config in others.into_iter().chain(MODES.map(config_of)) {
        let text = toml::to_string(&config).expect("every setting has a form in a file");
        assert_eq!(parse(&text).as_ref(), Ok(&config), "{text}");
    }
}

#[test]
fn unknown_key_is_refused_in_every_section_and_the_valid_keys_are_listed() {
    for (text, known) in [
        ("wrokers = 4", "workers"),
        ("[queue]\nwarm = 1", "fairness"),
        ("[retry]\nattempts = 3", "max_attempts"),
        ("[poller]\nbatch_size = 3", "busy_interval"),
        ("[lease]\ncold = \"1s\"", "duration"),
        ("[purge]\nretention = \"1s\"", "on_done"),
        ("[purge.done]\naction = \"delete\"\nbefore = \"1s\"", "after"),
        ("[metrics]\nname = \"x\"", "prefix"),
    ] {
        let error = parse(text).expect_err(text);
        assert!(error.contains("unknown field") && error.contains(known), "{error}");
    }
}

#[test]
fn unknown_word_is_refused_and_the_valid_words_are_listed() {
    for (text, known) in [
        ("mode = \"SINGLE_NODE\"", "`multi_node`, `single_node`, `strict`, `writer_only`"),
        ("[queue]\nfairness = \"fair\"", "`weighted` or `hot_first`"),
        ("[purge]\non_done = \"drop\"", "`keep`, `delete`, `archive`"),
    ] {
        let error = parse(text).expect_err(text);
        assert!(error.contains(known), "{error}");
    }
}

#[test]
fn error_for_a_wrong_duration_shows_how_to_write_one() {
    let settings = [
        "handler_timeout = ?",
        "no_route_grace = ?",
        "[poller]\ninterval = ?",
        "[poller]\nbusy_interval = ?",
        "[retry]\nbase_delay = ?",
        "[lease]\nhot = ?",
        "[purge]\nage = ?",
        "[purge.done]\naction = \"delete\"\nafter = ?",
    ];
    for setting in settings {
        for value in ["5", "0.5", "true", "\"5\"", "\"\"", "\"soon\"", "\"-1s\"", "\"1e99years\""] {
            let error = parse(&setting.replace('?', value)).expect_err(setting);
            assert!(error.contains(r#"a duration such as "5s" or "200ms""#), "{error}");
        }
    }
}

#[test]
fn durations_are_read_in_human_notation() {
    for (text, expected) in
        [("0s", secs(0)), ("1h 30m", secs(5400)), ("7days", days(7)), ("1us", Duration::from_micros(1))]
    {
        assert_eq!(config(&format!("drain = {text:?}")).drain, expected, "{text}");
    }
}

#[test]
fn number_that_no_setting_can_hold_is_refused() {
    for text in ["workers = -1", "[queue]\nhot = 1.5", "[retry]\nmax_attempts = 4294967296"] {
        assert!(parse(text).is_err(), "{text}");
    }
}

fn config_with_all_mistakes() -> Config {
    let mut config = Config::default();
    config.name = "a\nb".to_owned();
    config.mode = Mode::MultiNode;
    config.workers = Some(0);
    config.queue = QueueConfig::default().with_hot(0).with_cold(1_000_001).with_bytes(10);
    config.retry = Some(
        RetryPolicy::default()
            .with_max_attempts(0)
            .with_base_delay(days(400))
            .with_max_delay(days(366))
            .with_jitter(1.5, 0.5),
    );
    config.poller.interval = Duration::ZERO;
    config.poller.busy_interval = Some(secs(1));
    config.poller.batch = 10_001;
    config.lease.duration = Duration::ZERO;
    config.lease.hot = days(2);
    config.purge.age = Some(Duration::ZERO);
    config.purge.interval = days(2);
    config.purge.batch = 0;
    config.metrics.prefix = "1st".to_owned();
    config.handler_timeout = Duration::ZERO;
    config.publish_timeout = days(2);
    config.store_timeout = Duration::from_micros(999);
    config.drain = days(2);
    config.no_route_grace = None;
    config.busy_grace = days(40_000);
    config.payload_bytes = 1 << 31;
    config
}

#[test]
fn every_problem_is_reported_together() {
    let mut expected = [
        "name",
        "workers",
        "queue.hot",
        "queue.cold",
        "queue.bytes",
        "retry.max_attempts",
        "retry.base_delay",
        "retry.max_delay",
        "retry.jitter",
        "poller.interval",
        "poller.busy_interval",
        "poller.batch",
        "lease.duration",
        "lease.hot",
        "purge.age",
        "purge.interval",
        "purge.batch",
        "metrics.prefix",
        "handler_timeout",
        "publish_timeout",
        "store_timeout",
        "drain",
        "busy_grace",
        "payload_bytes",
    ];
    let mut settings = refused_settings(&config_with_all_mistakes());
    settings.sort_unstable();
    expected.sort_unstable();
    assert_eq!(settings, expected);
}

#[test]
fn report_has_every_setting_and_the_next_step() {
    let error = config_with_all_mistakes().validate().expect_err("all wrong");
    let text = error.to_string();
    assert!(text.starts_with("the configuration has 24 problems\n"), "{text}");
    for problem in &error.problems {
        assert!(text.contains(&format!("\n  {}: {}", problem.setting, problem.advice)), "{text}");
    }
    let mut config = Config::default();
    config.workers = Some(0);
    let one = config.validate().expect_err("no workers");
    assert_eq!(
        one.to_string(),
        "the configuration has 1 problem\n  workers: is 0, must be between 1 and 10000"
    );
}

/// Checks one setting: the values that it accepts, and those for which it is refused.
fn bounds<T: Copy + std::fmt::Debug>(setting: &str, set: fn(&mut Config, T), good: &[T], bad: &[T]) {
    for (values, expected) in [(good, &[][..]), (bad, &[setting][..])] {
        for &value in values {
            // Large enough that only the setting itself can be wrong.
            let queue = QueueConfig::default().with_bytes(usize::MAX);
            let mut config = Config::default();
            config.queue = queue;
            set(&mut config, value);
            assert_eq!(refused_settings(&config), expected, "{setting} = {value:?}");
        }
    }
}

// S2-42
#[test]
fn sizes_have_bounds() {
    bounds("workers", |c, n| c.workers = Some(n), &[1, 10_000], &[0, 10_001, usize::MAX]);
    bounds("queue.hot", |c, n| c.queue.hot = n, &[1, 1_000_000], &[0, 1_000_001, usize::MAX]);
    bounds("queue.cold", |c, n| c.queue.cold = n, &[1, 1_000_000], &[0, 1_000_001, usize::MAX]);
    bounds("queue.bytes", |c, n| c.queue.bytes = n, &[1_048_576, usize::MAX], &[0, 1_048_575]);
    bounds("poller.batch", |c, n| c.poller.batch = n, &[1, 10_000], &[0, 10_001, usize::MAX]);
    bounds("purge.batch", |c, n| c.purge.batch = n, &[1, 100_000], &[0, 100_001, usize::MAX]);
    bounds("payload_bytes", |c, n| c.payload_bytes = n, &[1, 1 << 30], &[0, (1 << 30) + 1, usize::MAX]);
}

#[test]
fn durations_have_bounds() {
    let (low, day) = (millis(1), days(1));
    let bad = [Duration::ZERO, Duration::from_micros(999), day + low, Duration::MAX];
    bounds("poller.interval", |c, d| c.poller.interval = d, &[low, day], &bad);
    bounds("purge.interval", |c, d| c.purge.interval = d, &[low, day], &bad);
    bounds("handler_timeout", |c, d| c.handler_timeout = d, &[low, day], &bad);
    bounds("publish_timeout", |c, d| c.publish_timeout = d, &[low, day], &bad);
    bounds("store_timeout", |c, d| c.store_timeout = d, &[low, day], &bad);
    bounds("drain", |c, d| c.drain = d, &[Duration::ZERO, day], &[day + low, Duration::MAX]);
    let busy = |c: &mut Config, d| c.poller.busy_interval = Some(d);
    bounds(
        "poller.busy_interval",
        busy,
        &[millis(1), secs(5)],
        &[Duration::ZERO, millis(5001), Duration::MAX],
    );

    let bad = [Duration::ZERO, millis(99), day + low, Duration::MAX];
    let duration = |c: &mut Config, duration| c.lease.duration = duration;
    bounds("lease.duration", duration, &[millis(100), day], &bad);
    let hot = |c: &mut Config, hot| c.lease.hot = hot;
    bounds("lease.hot", hot, &[millis(100), day], &bad);
}

#[test]
fn retries_have_bounds() {
    fn policy(config: &mut Config) -> &mut RetryPolicy {
        config.retry.get_or_insert_default()
    }
    bounds("retry.max_attempts", |c, n| policy(c).max_attempts = n, &[1, u32::MAX], &[0]);
    let base = |c: &mut Config, d| policy(c).base_delay = d;
    bounds(
        "retry.base_delay",
        base,
        &[millis(1), secs(60)],
        &[Duration::ZERO, millis(60_001), Duration::MAX],
    );
    let max = |c: &mut Config, d| policy(c).max_delay = d;
    bounds("retry.max_delay", max, &[millis(200), days(365)], &[days(365) + millis(1), Duration::MAX]);
    let (nan, infinite) = (f64::NAN, f64::INFINITY);
    bounds(
        "retry.jitter",
        |c, range| policy(c).jitter = range,
        &[(0.0, 0.0), (1.0, 1.0), (0.0, 10.0)],
        &[(-0.1, 1.0), (1.0, 0.9), (0.0, 10.1), (nan, 1.0), (1.0, nan), (0.0, infinite), (-infinite, 0.0)],
    );
}

#[test]
fn names_have_bounds() {
    let long = "ü".repeat(64);
    bounds("name", |c, s: &str| s.clone_into(&mut c.name), &["a", "größe 1", &long], &["", "a\tb", "\u{85}"]);
    let mut too_long = Config::default();
    too_long.name = "ü".repeat(65);
    assert_eq!(refused_settings(&too_long), ["name"]);
    let prefix = |c: &mut Config, s: &str| s.clone_into(&mut c.metrics.prefix);
    let bad = ["", "1a", "_a", ".a", "a-b", "a b", "aü", "outbox.", "a..b"];
    bounds("metrics.prefix", prefix, &["a", "shop.out_box2"], &bad);
}

#[test]
fn destination_of_a_fan_out_has_a_name_of_1_to_64_characters() {
    let built = |name: &str| {
        let route = Route::event("Made").fan_out_to(name, Recorder::new());
        Outbox::builder(MemoryStore::new(), Routes::new().add(route)).single_node().build().map(drop)
    };
    assert_eq!(built(&"ü".repeat(64)), Ok(()));
    for bad in [String::new(), "ü".repeat(65)] {
        let error = built(&bad).expect_err("a bad name");
        assert!(error.to_string().contains("must be 1 to 64 characters"), "{error}");
    }
}

/// The modes in which a change of a setting is refused, and for which setting.
fn refused_in(change: fn(&mut Config)) -> Vec<(Mode, String)> {
    let of = |mode| {
        let mut config = config_of(mode);
        change(&mut config);
        refused_settings(&config).into_iter().map(move |setting| (mode, setting))
    };
    MODES.into_iter().flat_map(of).collect()
}

// S3-21, S3-139, S3-140, S3-141
#[test]
fn setting_that_makes_no_sense_in_a_mode_is_refused_only_there() {
    let refused = |mode, setting: &str| (mode, setting.to_owned());
    let strict_and_writer = |setting| [refused(Mode::Strict, setting), refused(Mode::WriterOnly, "mode")];
    assert_eq!(refused_in(|c| c.workers = Some(2)), strict_and_writer("workers"));
    assert_eq!(refused_in(|c| c.retry = Some(RetryPolicy::default())), strict_and_writer("retry"));
    assert_eq!(refused_in(|c| c.lease.hot = secs(5)), [refused(Mode::WriterOnly, "lease")]);
    assert_eq!(refused_in(|c| c.no_route_grace = Some(secs(1))), [refused(Mode::Strict, "no_route_grace")]);
    assert_eq!(
        refused_in(|c| c.purge.age = Some(days(90))),
        [Mode::SingleNode, Mode::MultiNode, Mode::Strict].map(|mode| refused(mode, "purge.age"))
    );
    let writer = [refused(Mode::WriterOnly, "purge.on_done")];
    assert_eq!(refused_in(|c| c.purge.on_done = OnDone::Delete), writer);
    assert_eq!(refused_in(|c| c.purge.on_done = OnDone::Archive), writer);
}

/// The mode fills in options that are left out, and the result is valid.
#[test]
fn resolved_configuration_has_the_modes_values_for_open_options() {
    let resolved = |mode| {
        let config = config_of(mode).resolved();
        assert_eq!(config.validate(), Ok(()), "{mode:?}");
        (config.workers, config.retry.map(|retry| retry.max_attempts), config.no_route_grace)
    };
    assert_eq!(resolved(Mode::MultiNode), (Some(4), Some(10), Some(secs(600))));
    assert_eq!(resolved(Mode::SingleNode), (Some(4), Some(10), Some(Duration::ZERO)));
    assert_eq!(resolved(Mode::Strict), (Some(1), Some(1), Some(Duration::ZERO)));
    assert_eq!(resolved(Mode::WriterOnly), (None, None, None));

    let mut config = Config::relay();
    config.workers = Some(7);
    config.no_route_grace = Some(secs(1));
    let resolved = config.resolved();
    assert_eq!((resolved.workers, resolved.no_route_grace), (Some(7), Some(secs(1))));
}

// S3-21: the mode has one worker and one attempt in any case.
#[test]
fn strict_mode_accepts_the_values_that_it_implies() {
    let retry = RetryPolicy::default().with_max_attempts(1);
    let mut config = config_of(Mode::Strict);
    config.workers = Some(1);
    config.retry = Some(retry);
    config.no_route_grace = Some(Duration::ZERO);
    assert_eq!(config.validate(), Ok(()));
}

// S3-21
#[test]
fn writer_only_may_purge_by_age_but_not_immediately() {
    let aged = |age| {
        let mut config = config_of(Mode::WriterOnly);
        config.purge.age = Some(age);
        refused_settings(&config)
    };
    assert!(aged(days(30)).is_empty());
    assert_eq!(aged(Duration::ZERO), ["purge.age"]);
}

#[test]
fn relay_polls_fast_in_large_batches_and_drains_longer() {
    let config = Config::relay();
    assert_eq!(config.validate(), Ok(()));
    assert_eq!((config.poller.interval, config.poller.busy_interval), (millis(250), Some(millis(50))));
    assert_eq!((config.poller.batch, config.drain), (500, secs(30)));
    let mut rest = config;
    rest.poller = PollerConfig::default();
    rest.drain = secs(5);
    assert_eq!(rest, Config::default(), "and nothing else");
}

// S4-05, S4-06, S4-10, S4-12, S4-14, S4-16
#[test]
fn kafka_polling_has_the_settings_of_the_classic_polling_publisher() {
    let config = Config::kafka_polling();
    assert_eq!(config.validate(), Ok(()));
    assert_eq!((config.mode, config.workers), (Mode::MultiNode, Some(1)));
    assert_eq!((config.poller.interval, config.poller.batch), (secs(5), 10));
    assert_eq!((config.poller.busy_interval, config.poller.skip_recent), (None, Duration::ZERO));
    assert_eq!(config.purge.done, Retention::delete_after(days(30)));
    assert_eq!((config.purge.on_done, config.purge.dead), (OnDone::Keep, Retention::KEEP));
}

#[test]
fn extremes_are_refused_without_a_panic() {
    for (size, duration) in [(0, Duration::ZERO), (usize::MAX, Duration::MAX)] {
        for mode in MODES {
            let retention = Retention::archive_after(duration);
            let mut config = Config::default();
            config.name = String::new();
            config.mode = mode;
            config.workers = Some(size);
            config.queue = QueueConfig::default().with_hot(size).with_cold(size).with_bytes(size);
            config.retry = Some(
                RetryPolicy::default()
                    .with_max_attempts(size as u32)
                    .with_base_delay(duration)
                    .with_max_delay(duration)
                    .with_jitter(f64::NEG_INFINITY, f64::NAN),
            );
            config.poller.interval = duration;
            config.poller.busy_interval = Some(duration);
            config.poller.batch = size;
            config.poller.skip_recent = duration;
            config.lease.duration = duration;
            config.lease.hot = duration;
            config.purge.on_done = OnDone::Archive;
            config.purge.done = retention.clone();
            config.purge.dead = retention;
            config.purge.age = Some(duration);
            config.purge.archived = Some(duration);
            config.purge.interval = duration;
            config.purge.batch = size;
            config.metrics.prefix = String::new();
            config.handler_timeout = duration;
            config.publish_timeout = duration;
            config.store_timeout = duration;
            config.drain = duration;
            config.no_route_grace = Some(duration);
            config.busy_grace = duration;
            config.payload_bytes = size;
            assert!(refused_settings(&config).len() > 15, "{:?}", config.validate());
            let _ = toml::to_string(&config);
        }
    }
}
