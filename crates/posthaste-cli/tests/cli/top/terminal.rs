//! The terminal itself: its size, its colours, control sequences from the store, and its restoration.

use super::top;
use crate::shop::{Shop, StoreKind};

/// Clears the screen, sets the title, reverses the reading direction, rings the bell, and looks like a second row.
const HOSTILE_TEXT_SQL: &str = "'x' || char(27) || '[2J' || char(155) || '31m' || char(27) || ']0;t' || char(7) || char(13) \
                       || char(10) || 'fake' || char(8238) || char(127)";

#[test]
fn every_exit_restores_the_terminal() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    for end in ["q", "\x03", "TERM", "INT", "HUP"] {
        let screen = top(&shop, "", 80, 24);
        screen.wait_for("connection refused");
        match end {
            "q" | "\x03" => screen.press(end),
            signal => screen.signal(signal),
        }
        let left = screen.end();
        assert_eq!(left.code, Some(0), "{end:?}");
        assert!(left.is_restored, "{end:?}: {}", left.text);
        assert_eq!(left.text.trim(), "", "{end:?}: the main screen is unchanged");
        assert!(!shop.path("shop.db-wal").exists(), "{end:?}: no side files are left beside the database");
    }
}

#[test]
fn small_terminal_shows_the_most_important_parts() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    let screen = top(&shop, "", 40, 10);
    screen.wait_for("pending 2: 1 due");
    screen.press("\r\r");
    screen.wait_for("d-1");
    screen.press("r");
    screen.wait_for("Send 2 DEAD events out again?");
    screen.wait_for("y replays, any other key cancels");
    screen.press("n");
    screen.wait_for("nothing was replayed");
    screen.resize(80, 24);
    screen.wait_for("Esc back  ? help  q quit");
    screen.resize(1, 1);
    screen.resize(100, 30);
    screen.wait_for("Esc back  ? help  q quit");
    screen.press("q");
    assert!(screen.end().is_restored);
}

#[test]
fn control_sequences_reach_no_terminal() {
    let shop = Shop::empty(StoreKind::Sqlite);
    shop.sql(&format!(
        "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, status,
           last_error) VALUES ({HOSTILE_TEXT_SQL}, {HOSTILE_TEXT_SQL}, {HOSTILE_TEXT_SQL}, {HOSTILE_TEXT_SQL}, {HOSTILE_TEXT_SQL}, 'sEcret', 3, {HOSTILE_TEXT_SQL});
         INSERT INTO outbox_event (event_id, event_type, aggregate_type, tenant_id, payload)
         VALUES ('p-1', {HOSTILE_TEXT_SQL}, {HOSTILE_TEXT_SQL}, {HOSTILE_TEXT_SQL}, 'sEcret');
         INSERT INTO outbox_event_control VALUES ({HOSTILE_TEXT_SQL}, 0, {HOSTILE_TEXT_SQL});"
    ));
    let screen = top(&shop, "", 120, 40);
    let shown = r"x\u{1b}[2J";
    for keys in ["\r", "\r", "r"] {
        screen.wait_for(shown);
        screen.press(keys);
    }
    screen.wait_for("Send 1 DEAD event out again?");
    screen.press("nq");
    let left = screen.end();
    let text = String::from_utf8_lossy(&left.bytes);
    for hostile in ["x\x1b[2J", "\u{9b}31m", "\x1b]0;t", "\u{202e}", "\x07", "\x7f", "sEcret"] {
        assert!(!text.contains(hostile), "{hostile:?} reached the terminal");
    }
}

#[test]
fn screen_without_colours_has_all_texts() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    let mut command = shop.command("top --interval 100ms");
    command.env("NO_COLOR", "1");
    let screen = super::screen::Screen::of(command, 80, 24);
    screen.wait_for("1 outbox, 1 has dead");
    screen.press("q");
    let text = String::from_utf8_lossy(&screen.end().bytes).into_owned();
    let colours = text.split("\x1b[").skip(1).filter_map(|code| code.split_once('m')).map(|(code, _)| code);
    let of_colours: Vec<&str> = colours
        .filter(|code| code.split(';').any(|n| matches!(n.as_bytes(), [b'3' | b'4' | b'9', b'0'..=b'8'])))
        .collect();
    assert!(of_colours.is_empty(), "{of_colours:?}");
}

#[test]
fn help_opens_and_closes() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    let screen = top(&shop, "", 80, 24);
    screen.wait_for("connection refused");
    screen.press("?");
    screen.wait_for("any key closes this");
    screen.press("q");
    screen.wait_until("the help is gone", |text| !text.contains("any key closes this"));
    screen.press("p");
    screen.wait_for("FROZEN, p resumes");
    screen.press("q");
    assert_eq!(screen.end().code, Some(0));
}

#[test]
fn top_without_a_terminal_names_alternatives() {
    let shop = Shop::seeded(StoreKind::Sqlite);
    for args in ["top", "top --output json", "top --relay http://127.0.0.1:1"] {
        let output = shop.run(args);
        assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{output}");
        assert!(output.stderr.contains("posthaste status --watch"), "{output}");
        assert!(output.stderr.contains("posthaste status --output json"), "{output}");
    }
}

#[test]
fn wrong_usage_does_not_open_the_screen() {
    let shop = Shop::bare(StoreKind::Sqlite);
    for (args, advice) in [
        ("--store oracle://ann:sEcret@db.example/shop", "unknown store scheme"),
        ("--store memory:", "so no other process can open it"),
        ("--relay ftp://ann:sEcret@relay.example", "--relay must be the URL"),
        ("--store sqlite:shop.db --schema billing", "--schema is for PostgreSQL"),
        ("--store sqlite:shop.db --table a;b", "--table"),
        ("--relay http://127.0.0.1:1 --token-file nowhere", "cannot be read"),
    ] {
        let screen = top(&shop, args, 120, 24);
        let left = screen.end();
        assert_eq!(left.code, Some(2), "{args}: {}", left.text);
        assert!(left.text.replace('\n', "").contains(advice), "{args}: {}", left.text);
        assert!(!left.text.contains("sEcret") && left.is_restored, "{args}: {}", left.text);
    }
}
