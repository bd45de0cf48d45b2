//! Reads the URL of a PostgreSQL server, as far as PgBouncer needs it.

/// The parts of `postgres://user:password@host:port/database`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PostgresUrl<'a> {
    pub(super) user: &'a str,
    pub(super) password: &'a str,
    pub(super) host: &'a str,
    pub(super) port: u16,
    pub(super) database: &'a str,
}

impl<'a> PostgresUrl<'a> {
    /// None for everything that is less plain: options, escapes, addresses of IPv6, sockets.
    pub(super) fn parse(url: &'a str) -> Option<Self> {
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"))?;
        if rest.contains(|c: char| "%?#[]\"'\\".contains(c) || c.is_whitespace()) {
            return None;
        }
        let (login, place) = rest.rsplit_once('@')?;
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let (address, database) = place.split_once('/')?;
        let (host, port) = address.split_once(':').unwrap_or((address, "5432"));
        if [user, host, database].contains(&"") {
            return None;
        }
        Some(Self { user, password, host, port: port.parse().ok()?, database })
    }

    pub(super) fn address(&self) -> (&'a str, u16) {
        (self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_urls_are_read() {
        let url = PostgresUrl::parse("postgres://me:s3cr@t@db.local:6000/shop").unwrap();
        assert_eq!((url.user, url.password, url.database), ("me", "s3cr@t", "shop"));
        assert_eq!(url.address(), ("db.local", 6000));
        let url = PostgresUrl::parse("postgresql://postgres@127.0.0.1/postgres").unwrap();
        assert_eq!((url.user, url.password, url.address()), ("postgres", "", ("127.0.0.1", 5432)));
    }

    #[test]
    fn anything_else_is_left_alone() {
        for url in [
            "",
            "mysql://root@127.0.0.1/x",
            "postgres://127.0.0.1/x",
            "postgres://me@127.0.0.1",
            "postgres://me@127.0.0.1:port/x",
            "postgres://me@127.0.0.1/x?sslmode=require",
            "postgres://me:a%20b@127.0.0.1/x",
            "postgres://me:a\"b@127.0.0.1/x",
            "postgres://me@[::1]/x",
            "postgres://me@/x?host=/tmp",
            "postgres://@127.0.0.1/x",
        ] {
            assert_eq!(PostgresUrl::parse(url), None, "{url}");
        }
    }
}
