//! Parses store URLs. It is the only module that knows which schemes exist.

use std::fmt;
use std::str::FromStr;

use posthaste_redis::{RedisStore, RedisStoreBuilder};
use sqlx::mysql::MySqlConnectOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

use crate::{InvalidStore, redact};

/// The forms of a store URL, for error messages.
pub const KNOWN_URLS: &str = "postgres://user@host/database, mysql://user@host/database, redis://host:port/0, \
     redis+cluster://host:port,host:port/, sqlite:///path/to/file.db or sqlite:file.db";

const SCHEMES: &[&str] = &[
    "postgres",
    "postgresql",
    "mysql",
    "mariadb",
    "sqlite",
    "redis",
    "rediss",
    "redis+cluster",
    "rediss+cluster",
    "memory",
];

/// Whether the text begins with the scheme of a store. Any other text must not be shown: it may be a password.
pub fn has_known_scheme(url: &str) -> bool {
    url.split_once(':').is_some_and(|(scheme, _)| SCHEMES.contains(&scheme))
}

/// A store that a URL names, with the options of its driver. Its `Debug` shows no option.
#[derive(Clone)]
#[non_exhaustive]
pub enum StoreUrl {
    /// `postgres:` or `postgresql:`.
    Postgres(Box<PgConnectOptions>),
    /// `mysql:` or `mariadb:`; which of the two it is is read from the server.
    MySql(Box<MySqlConnectOptions>),
    /// `sqlite:`, a file.
    Sqlite(Box<SqliteConnectOptions>),
    /// `redis:` or `rediss:`, one server.
    Redis(Box<RedisStoreBuilder>),
    /// `redis+cluster:` or `rediss+cluster:`.
    RedisCluster(Box<RedisStoreBuilder>),
    /// `memory:`. It exists in this process only, so an engine in this process can use it and operators cannot.
    Memory,
}

/// Shows the kind only: the `Debug` of the drivers' options contains the password.
impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Postgres(_) => "Postgres",
            Self::MySql(_) => "MySql",
            Self::Sqlite(_) => "Sqlite",
            Self::Redis(_) => "Redis",
            Self::RedisCluster(_) => "RedisCluster",
            Self::Memory => "Memory",
        })
    }
}

impl FromStr for StoreUrl {
    type Err = InvalidStore;

    fn from_str(url: &str) -> Result<Self, InvalidStore> {
        let Some((scheme, rest)) = url.split_once(':') else {
            return Err(InvalidStore::new(format!(
                "{:?} is not a store URL: write {KNOWN_URLS}",
                redact(url)
            )));
        };
        match scheme {
            "postgres" | "postgresql" => postgres(url, rest),
            "mysql" | "mariadb" => mysql(url, rest),
            "sqlite" => sqlite(url),
            "redis" | "rediss" => redis(url, rest),
            "redis+cluster" | "rediss+cluster" => redis_cluster(scheme, rest),
            "memory" => Ok(Self::Memory),
            scheme => Err(InvalidStore::new(format!(
                "this build of Posthaste does not know the kind of store {:?}: write {KNOWN_URLS}",
                redact(scheme)
            ))),
        }
    }
}

fn unreadable(error: &dyn fmt::Display) -> InvalidStore {
    InvalidStore::new(format!("the store URL cannot be read: {error}"))
}

fn postgres(url: &str, rest: &str) -> Result<StoreUrl, InvalidStore> {
    POSTGRES.check(rest)?;
    Ok(StoreUrl::Postgres(Box::new(url.parse().map_err(|error| unreadable(&error))?)))
}

fn mysql(url: &str, rest: &str) -> Result<StoreUrl, InvalidStore> {
    MYSQL.check(rest)?;
    let options: MySqlConnectOptions = url.parse().map_err(|error| unreadable(&error))?;
    if options.get_database().is_none() {
        return Err(InvalidStore::new(format!("the store URL names no database: write {KNOWN_URLS}")));
    }
    Ok(StoreUrl::MySql(Box::new(options)))
}

fn redis(url: &str, rest: &str) -> Result<StoreUrl, InvalidStore> {
    REDIS.check(rest)?;
    Ok(StoreUrl::Redis(Box::new(RedisStore::builder(url).map_err(|error| unreadable(&error))?)))
}

/// `redis+cluster://user:password@host:port,host:port/`: some nodes of one cluster, with the same user on all of them.
fn redis_cluster(scheme: &str, rest: &str) -> Result<StoreUrl, InvalidStore> {
    REDIS.check(rest)?;
    let place = rest.trim_start_matches('/').split('?').next().unwrap_or_default();
    let (nodes, database) = place.split_once('/').unwrap_or((place, ""));
    if !["", "0"].contains(&database) {
        return Err(InvalidStore::new(
            "the store URL names a database, and a Redis Cluster has only one: leave out the path after the nodes",
        ));
    }
    let (user, nodes) = match nodes.rsplit_once('@') {
        Some((user, nodes)) => (format!("{user}@"), nodes),
        None => (String::new(), nodes),
    };
    let server = scheme.trim_end_matches("+cluster");
    let query = rest.split_once('?').map(|(_, query)| format!("?{query}")).unwrap_or_default();
    let nodes: Vec<String> =
        nodes.split(',').map(|node| format!("{server}://{user}{node}/{query}")).collect();
    let builder =
        RedisStore::cluster(nodes.iter().map(String::as_str)).map_err(|error| unreadable(&error))?;
    Ok(StoreUrl::RedisCluster(Box::new(builder)))
}

/// The rules for the URLs of one kind of server.
struct ServerUrls {
    name: &'static str,
    /// Parameters that the driver understands. Others are refused here, because the driver would ignore them, or log a
    /// warning that contains the value.
    parameters: &'static [&'static str],
    /// Whether this is another spelling of one of them.
    is_synonym: fn(&str) -> bool,
}

const POSTGRES: ServerUrls = ServerUrls {
    name: "PostgreSQL",
    parameters: &[
        "sslmode",
        "sslrootcert",
        "sslcert",
        "sslkey",
        "host",
        "hostaddr",
        "port",
        "dbname",
        "user",
        "password",
        "application_name",
        "options",
    ],
    is_synonym: |name| name.starts_with("options[") || name.starts_with("options%5B"),
};

/// Character set and time zone are not among them: Posthaste sets utf8mb4 and UTC on every connection.
const MYSQL: ServerUrls = ServerUrls {
    name: "MySQL",
    parameters: &["ssl-mode", "ssl-ca", "ssl-cert", "ssl-key", "socket"],
    is_synonym: |name| ["sslmode", "sslca", "sslcert", "sslkey"].contains(&name),
};

const REDIS: ServerUrls = ServerUrls { name: "Redis", parameters: &["protocol"], is_synonym: |_| false };

impl ServerUrls {
    /// `rest` is the URL after the scheme and its colon.
    fn check(&self, rest: &str) -> Result<(), InvalidStore> {
        let Some(rest) = rest.strip_prefix("//") else {
            return Err(InvalidStore::new(format!(
                "a {} URL needs // after its scheme: write {KNOWN_URLS}",
                self.name
            )));
        };
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let behind_host = place.find('/').map_or("", |at| &place[at..]);
        // The driver would take a part of the password for the host, and show it.
        if place.contains('#') || behind_host.contains('@') {
            return Err(InvalidStore::new(
                "the store URL cannot be read: in its user and password write # as %23, / as %2F, ? as %3F \
                 and @ as %40",
            ));
        }
        query.split('&').filter(|pair| !pair.is_empty()).try_for_each(|pair| self.expect_known(pair))
    }

    fn expect_known(&self, parameter: &str) -> Result<(), InvalidStore> {
        let name = parameter.split_once('=').map_or(parameter, |(name, _)| name);
        if self.parameters.contains(&name) || (self.is_synonym)(name) {
            return Ok(());
        }
        Err(InvalidStore::new(format!(
            "the store URL has a parameter that {} URLs do not support here: supported are {}",
            self.name,
            self.parameters.join(", ")
        )))
    }
}

fn sqlite(url: &str) -> Result<StoreUrl, InvalidStore> {
    let options: SqliteConnectOptions = url.parse().map_err(|error| unreadable(&error))?;
    if options.get_filename().as_os_str().is_empty() {
        return Err(InvalidStore::new(format!("the store URL names no file: write {KNOWN_URLS}")));
    }
    let in_memory = url.contains(":memory:") || url.contains("mode=memory");
    Ok(if in_memory { StoreUrl::Memory } else { StoreUrl::Sqlite(Box::new(options)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    // S3-09
    #[test]
    fn wrong_urls_say_what_to_write() {
        for url in [
            "",
            "shop.db",
            "oracle://ann:sEcret@db/shop",
            "sqlite:",
            "sqlite:x?mode=odd",
            "ann:sEcret@db",
            "postgres:ann:sEcret@db/shop",
            "postgres://ann:12#sEcret@db/shop",
            "postgres://ann:12/sEcret@db/shop",
            "postgres://ann:12?sEcret@db/shop",
            "postgres://ann:sEcret@db:port/shop",
            "postgres://db/shop?pasword=sEcret",
            "postgres://db/shop?sslmode=odd&password=sEcret",
            "mysql:ann:sEcret@db/shop",
            "mysql://ann:12#sEcret@db/shop",
            "mysql://ann:12/sEcret@db/shop",
            "mysql://ann:12?sEcret@db/shop",
            "mysql://ann:sEcret@db:port/shop",
            "mysql://ann:sEcret@db",
            "mysql://ann:sEcret@db/",
            "mysql://db/shop?password=sEcret",
            "mysql://ann:sEcret@db/shop?ssl-mode=odd",
            "mysql://ann:sEcret@db/shop?timezone=%2B01:00",
            "mariadb://ann:sEcret@db/shop?charset=latin1",
            "redis:ann:sEcret@db",
            "redis://ann:12#sEcret@db/",
            "redis://ann:12/sEcret@db/0",
            "redis://ann:12?sEcret@db/",
            "redis://ann:sEcret@db:port/",
            "redis://ann:sEcret@db/shop",
            "redis://db/?password=sEcret",
            "rediss://ann:sEcret@db/#insecure",
            "redis+cluster://ann:sEcret@/",
            "redis+cluster://ann:sEcret@a:1,b:port/",
            "redis+cluster://ann:sEcret@a:1,,b:2/",
            "redis+cluster://ann:sEcret@a:1/5",
            "redis+odd://ann:sEcret@db/",
        ] {
            let error = url.parse::<StoreUrl>().unwrap_err().to_string();
            assert!(!error.contains("sEcret"), "{error}");
            assert!(error.contains("URL") || error.contains(KNOWN_URLS), "{error}");
        }
    }

    #[test]
    fn postgres_urls_are_read_and_never_shown() {
        for url in [
            "postgres://ann:sEcret@db.example/shop",
            "postgresql://ann:sEcret@db.example:5433/shop?sslmode=require&options[search_path]=a",
            "postgres:///shop?host=/run/postgresql&user=ann&password=sEcret",
        ] {
            let url: StoreUrl = url.parse().unwrap();
            assert!(matches!(url, StoreUrl::Postgres(_)));
            assert!(!format!("{url:?}").contains("sEcret"));
        }
    }

    #[test]
    fn mysql_urls_are_read_and_never_shown() {
        for url in [
            "mysql://ann:sEcret@db.example/shop",
            "mariadb://ann:sEcret@db.example:3307/shop?ssl-mode=VERIFY_IDENTITY&ssl-ca=/etc/ca.pem",
            "mysql://ann:sEcret@localhost/shop?socket=/run/mysqld/mysqld.sock&sslmode=DISABLED",
        ] {
            let url: StoreUrl = url.parse().unwrap();
            assert!(matches!(&url, StoreUrl::MySql(options) if options.get_database() == Some("shop")));
            assert!(!format!("{url:?}").contains("sEcret"));
        }
    }

    #[test]
    fn redis_urls_are_read_and_never_shown() {
        for (url, is_cluster) in [
            ("redis://db.example", false),
            ("redis://:sEcret@db.example:6380/3?protocol=resp3", false),
            ("rediss://ann:sEcret@db.example/", false),
            ("redis+cluster://a.example:6379,b.example,[::1]:6381", true),
            ("rediss+cluster://ann:sEcret@a.example:6379,b.example:6380/0?protocol=resp3", true),
        ] {
            let url: StoreUrl = url.parse().unwrap();
            assert_eq!(matches!(url, StoreUrl::RedisCluster(_)), is_cluster);
            let (StoreUrl::Redis(builder) | StoreUrl::RedisCluster(builder)) = &url else {
                panic!("{url:?}")
            };
            assert!(!format!("{url:?} {builder:?}").contains("sEcret"));
        }
    }

    // S3-09
    #[test]
    fn memory_of_any_kind_is_memory() {
        for url in ["memory:", "sqlite::memory:", "sqlite://:memory:", "sqlite:x?mode=memory"] {
            assert!(matches!(url.parse(), Ok(StoreUrl::Memory)), "{url}");
        }
        assert!(matches!("sqlite:x.db".parse(), Ok(StoreUrl::Sqlite(_))));
    }
}
