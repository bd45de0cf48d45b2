//! Server addresses: `host:port` as users write them in settings and URLs.

use std::fmt;

/// A host, by name or by IP address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// A name, an IPv4 address, or an IPv6 address without its brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    /// Parses `host`, `host:port`, `[::1]` or `[::1]:port`. Returns `None` if the text is none of these, for
    /// example an IPv6 address without brackets.
    pub(crate) fn parse(text: &str, default_port: u16) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':')?)),
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map_or(Some(default_port), |port| port.parse().ok())?;
        let is_in_no_host = |c: char| c.is_whitespace() || c.is_control() || "/@?#[]".contains(c);
        let is_host = !host.is_empty() && !host.contains(is_in_no_host);
        is_host.then(|| Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_without_a_port_gets_the_default_port() {
        for (text, host, port, shown) in [
            ("rabbit", "rabbit", 5672, "rabbit:5672"),
            ("rabbit:1", "rabbit", 1, "rabbit:1"),
            ("[::1]", "::1", 5672, "[::1]:5672"),
            ("[::1]:2", "::1", 2, "[::1]:2"),
        ] {
            let address = Address::parse(text, 5672).expect(text);
            assert_eq!((address.host.as_str(), address.port), (host, port), "{text}");
            assert_eq!(address.to_string(), shown);
        }
        for text in
            ["", ":5672", "host:", "host:many", "host:70000", "[::1]x", "a b", "::1", "me@host", "a/b"]
        {
            assert_eq!(Address::parse(text, 5672), None, "{text}");
        }
    }
}
