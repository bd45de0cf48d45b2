//! SIGHUP: a new configuration is applied completely, under load, or not at all.

use super::file_sink::Sink;
use super::process::Relay;
use super::{Load, ids};
use crate::on_stores::on_stores;
use crate::shop::{Shop, StoreKind};

on_stores!([sqlite, postgres, mysql, redis][reload_under_load_loses_and_repeats_nothing]);

/// A configuration file that is rewritten several times.
struct File<'a> {
    outbox: &'a Shop,
    sink: &'a Sink,
}

impl File<'_> {
    fn options(&self) -> Vec<String> {
        vec!["--config".to_owned(), self.sink.path("posthaste.toml").display().to_string()]
    }

    /// Writes one route to the file with this name, and further settings of the outbox.
    fn write(&self, name: &str, more: &str) {
        let route = format!("[[outbox.shop.route]]\nname = {name:?}\npublish = {:?}\n", self.sink.url(name));
        super::file(self.sink, self.outbox, &format!("{more}\n{route}"));
    }
}

/// Every reload sends events to another file while they are being written. Each event arrives once, in one of the
/// files.
fn reload_under_load_loses_and_repeats_nothing(kind: StoreKind) {
    let outbox = Shop::empty(kind);
    const RELOADS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
    let sink = Sink::new();
    let file = File { outbox: &outbox, sink: &sink };
    file.write(RELOADS[0], "");
    let mut relay = Relay::start(&file.options());
    let load = Load::new(&outbox);
    let written = load.during(|| {
        for name in &RELOADS[1..] {
            file.write(name, "");
            relay.signal("HUP");
            relay.wait_for("new configuration");
            // Everything that is written from now on goes to the new file.
            sink.wait_for(&[name], &load.later());
        }
    });
    sink.wait_for_each_once(&RELOADS, &ids(0, written));
    relay.stop();
}

#[test]
fn strict_outbox_keeps_its_order_through_reloads() {
    const FILES: [&str; 3] = ["a", "b", "c"];
    let (outbox, sink) = (Shop::empty(StoreKind::Sqlite), Sink::new());
    let file = File { outbox: &outbox, sink: &sink };
    file.write(FILES[0], "mode = \"strict\"");
    let mut relay = Relay::start(&file.options());
    for (n, name) in FILES.iter().enumerate().skip(1) {
        outbox.write(&ids((n - 1) * 500, 500));
        file.write(name, "mode = \"strict\"");
        relay.signal("HUP");
        relay.wait_for("new configuration");
    }
    outbox.write(&ids(1000, 10));
    sink.wait_for_each_once(&FILES, &ids(0, 1010));
    let arrived: Vec<String> = FILES.iter().flat_map(|name| sink.arrived(name)).collect();
    assert_eq!(arrived, ids(0, 1010), "concatenated, the files are in order");
    relay.stop();
}

#[test]
fn reload_that_is_impossible_changes_nothing() {
    let (outbox, sink) = (Shop::empty(StoreKind::Sqlite), Sink::new());
    let file = File { outbox: &outbox, sink: &sink };
    file.write("a", "");
    let mut relay = Relay::start(&file.options());
    for (more, output) in [
        ("table = \"other\"\n", "outbox.shop.table"),
        ("migrate = true\n", "outbox.shop.migrate"),
        ("[outbox.shop.metrics]\nprefix = \"other\"\n", "outbox.shop.metrics.prefix"),
    ] {
        file.write("b", more);
        relay.signal("HUP");
        let line = relay.wait_for("nothing changed");
        assert!(line.contains(output) && line.contains("restart"), "{line}");
    }
    std::fs::write(sink.path("posthaste.toml"), "[outbox.shop]\nstroe = 1\n").expect("a file");
    relay.signal("HUP");
    let line = relay.wait_for("stroe");
    assert!(line.contains("posthaste.toml:2:1: ") && line.contains("nothing changed"), "{line}");

    outbox.write(&ids(0, 10));
    sink.wait_for_each_once(&["a"], &ids(0, 10));
    file.write("a", "");
    relay.signal("HUP");
    relay.wait_for("the same as before");
    relay.stop();
}
