//! Chooses free ports.

use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;
use std::ops::Range;

/// Below the range for outgoing connections, so that no client takes the port of a server that has not started yet or
/// that a test restarts.
const PORT_RANGE: Range<u16> = 20_000..32_000;

/// A free port of 127.0.0.1.
pub(super) fn free() -> Result<u16, String> {
    find(is_free)
}

/// Two free ports of 127.0.0.1, for a server that listens on both.
pub(super) fn free_pair() -> Result<(u16, u16), String> {
    find(|port| is_free(port) && is_free(port + 1)).map(|port| (port, port + 1))
}

fn find(is_free: impl Fn(u16) -> bool) -> Result<u16, String> {
    // A random start, so that two processes seldom choose the same port.
    let begin = PORT_RANGE.start
        + u16::try_from(RandomState::new().hash_one(()) % PORT_RANGE.len() as u64).unwrap_or(0);
    first_free(begin, is_free).ok_or_else(|| {
        format!(
            "No port of 127.0.0.1 is free between {} and {}: end programs that listen there",
            PORT_RANGE.start, PORT_RANGE.end
        )
    })
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// Searches the whole range, from `begin` on.
fn first_free(begin: u16, is_free: impl Fn(u16) -> bool) -> Option<u16> {
    (begin..PORT_RANGE.end).chain(PORT_RANGE.start..begin).find(|port| is_free(*port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_ports_are_skipped() {
        assert_eq!(first_free(20_500, |port| port > 20_502), Some(20_503));
        assert_eq!(first_free(31_999, |port| port != 31_999), Some(20_000));
        assert_eq!(first_free(20_500, |port| port == 20_499), Some(20_499));
        assert_eq!(first_free(20_500, |_| false), None);
    }

    #[test]
    fn port_with_a_listener_is_not_free() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        assert!(!is_free(listener.local_addr().unwrap().port()));
    }

    #[test]
    fn chosen_port_can_be_listened_on() {
        let port = free().unwrap();
        assert!(PORT_RANGE.contains(&port));
        assert!(TcpListener::bind(("127.0.0.1", port)).is_ok());
    }

    #[test]
    fn both_ports_of_a_pair_can_be_listened_on() {
        let (port, other) = free_pair().unwrap();
        assert!([port, other].map(|port| TcpListener::bind(("127.0.0.1", port))).iter().all(Result::is_ok));
    }
}
