//! Reads the address of the server, and for PgBouncer the login, from the URL of a database or broker.

/// The parts of `postgres://user:password@host:port/database`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PostgresUrl<'a> {
    pub(super) user: &'a str,
    pub(super) password: &'a str,
    pub(super) address: (&'a str, u16),
    pub(super) database: &'a str,
}

impl<'a> PostgresUrl<'a> {
    /// `None` if the URL has options, escapes, an IPv6 address, or no user or database.
    pub(super) fn parse(url: &'a str) -> Option<Self> {
        let address = postgres_address(url)?;
        let (_scheme, rest) = url.split_once("://").filter(|(_, rest)| is_plain(rest))?;
        let (login, place) = rest.rsplit_once('@')?;
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let (_address, database) = place.split_once('/')?;
        let is_whole = !user.is_empty() && !database.is_empty();
        is_whole.then_some(Self { user, password, address, database })
    }
}

pub(super) fn postgres_address(url: &str) -> Option<(&str, u16)> {
    address(url, &["postgres://", "postgresql://"], 5432)
}

pub(super) fn mysql_address(url: &str) -> Option<(&str, u16)> {
    address(url, &["mysql://", "mariadb://"], 3306)
}

pub(super) fn redis_address(url: &str) -> Option<(&str, u16)> {
    address(url, &["redis://"], 6379)
}

pub(super) fn amqp_address(url: &str) -> Option<(&str, u16)> {
    address(url, &["amqp://"], 5672)
}

pub(super) fn nats_address(url: &str) -> Option<(&str, u16)> {
    address(url, &["nats://"], 4222)
}

/// The addresses in `kafka://host:port,host:port`.
pub(super) fn kafka_addresses(url: &str) -> Option<Vec<(&str, u16)>> {
    url.strip_prefix("kafka://")?.split(',').map(|address| plain_address(address, 9092)).collect()
}

/// The address in `scheme://user:password@host:port/more`. Every part but the scheme and the host is optional.
fn address<'a>(url: &'a str, schemes: &[&str], default_port: u16) -> Option<(&'a str, u16)> {
    let rest = schemes.iter().find_map(|scheme| url.strip_prefix(scheme))?;
    // The part after the slash may contain anything, such as the `%2f` of a virtual host.
    let (place, _more) = rest.split_once('/').unwrap_or((rest, ""));
    let address = place.rsplit_once('@').map_or(place, |(_login, address)| address);
    plain_address(address, default_port)
}

fn plain_address(address: &str, default_port: u16) -> Option<(&str, u16)> {
    let address = Some(address).filter(|address| is_plain(address))?;
    let (host, port) = match address.split_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (address, default_port),
    };
    if host.is_empty() { None } else { Some((host, port)) }
}

/// Whether there are no options, escapes or IPv6 addresses.
fn is_plain(url: &str) -> bool {
    !url.contains(|c: char| "%?#[]\"'\\".contains(c) || c.is_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_of_postgres_is_read() {
        let url = PostgresUrl::parse("postgres://me:s3cr@t@db.local:6000/shop").unwrap();
        assert_eq!((url.user, url.password, url.database), ("me", "s3cr@t", "shop"));
        assert_eq!(url.address, ("db.local", 6000));
    }

    #[test]
    fn address_is_found_in_the_url_of_every_kind_of_server() {
        for (found, address) in [
            (postgres_address("postgresql://postgres@127.0.0.1/postgres"), ("127.0.0.1", 5432)),
            (mysql_address("mariadb://root@db.local:3307/shop"), ("db.local", 3307)),
            (mysql_address("mysql://root@127.0.0.1/shop?ssl-mode=disabled"), ("127.0.0.1", 3306)),
            (redis_address("redis://127.0.0.1:7000/"), ("127.0.0.1", 7000)),
            (redis_address("redis://127.0.0.1:7000"), ("127.0.0.1", 7000)),
            (redis_address("redis://cache.local/3"), ("cache.local", 6379)),
            (redis_address("redis://:s3cr@t@cache.local:7000/0"), ("cache.local", 7000)),
            (amqp_address("amqp://guest:guest@127.0.0.1:7000/%2f"), ("127.0.0.1", 7000)),
            (amqp_address("amqp://a%40b:c%2fd@mq.local"), ("mq.local", 5672)),
            (nats_address("nats://127.0.0.1:7000"), ("127.0.0.1", 7000)),
            (nats_address("nats://token@nats.local/"), ("nats.local", 4222)),
        ] {
            assert_eq!(found, Some(address));
        }
        let both = vec![("a.local", 9092), ("b.local", 7000)];
        assert_eq!(kafka_addresses("kafka://127.0.0.1:7000"), Some(vec![("127.0.0.1", 7000)]));
        assert_eq!(kafka_addresses("kafka://a.local,b.local:7000"), Some(both));
    }

    #[test]
    fn other_urls_have_no_address() {
        for url in [
            "",
            "mysql://me@127.0.0.1/x",
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
        assert_eq!(mysql_address("postgres://me@127.0.0.1/x"), None);
        for url in ["", "redis://", "redis://:7000/", "redis://a:port/", "redis://[::1]/", "mysql://a/"] {
            assert_eq!(redis_address(url), None, "{url}");
        }
        for url in ["", "amqp://", "amqp://a:port/", "amqp://[::1]/", "amqps://a/", "nats://a/", "amqp://a?b"]
        {
            assert_eq!(amqp_address(url), None, "{url}");
        }
        assert_eq!(nats_address("amqp://a/"), None);
        for url in [
            "",
            "kafka://",
            "kafka://a,",
            "kafka://a:port",
            "kafka://[::1]:7000",
            "a:7000",
            "kafka://an error",
        ] {
            assert_eq!(kafka_addresses(url), None, "{url}");
        }
    }
}
