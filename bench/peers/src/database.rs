//! A database for one run, with connections for both versions of the driver.

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _};
use sqlx08::postgres::{PgConnectOptions as PeerOptions, PgPoolOptions as PeerPoolOptions};

use crate::Commits;

pub(crate) struct Database {
    server: PgConnectOptions,
    peer: PeerOptions,
    name: String,
}

impl Database {
    pub(crate) async fn create(url: &str) -> anyhow::Result<Self> {
        let (server, peer): (PgConnectOptions, PeerOptions) = (url.parse()?, url.parse()?);
        let name = format!("posthaste_peers_{:08x}", fastrand::u32(..));
        let database = Self { server, peer, name };
        database.run(format!("CREATE DATABASE {}", database.name)).await?;
        Ok(database)
    }

    pub(crate) async fn drop(&self) -> anyhow::Result<()> {
        self.run(format!("DROP DATABASE {} WITH (FORCE)", self.name)).await
    }

    async fn run(&self, text: String) -> anyhow::Result<()> {
        self.server.connect().await?.execute(AssertSqlSafe(text)).await?;
        Ok(())
    }

    /// Connection options for Posthaste.
    pub(crate) fn options(&self) -> PgConnectOptions {
        self.server.clone().database(&self.name)
    }

    /// A pool for the other crates, with as many connections as Posthaste's engine.
    pub(crate) async fn peer_pool(&self, commits: Commits) -> anyhow::Result<sqlx08::PgPool> {
        let mut options = self.peer.clone().database(&self.name);
        if commits == Commits::Asynchronous {
            options = options.options([("synchronous_commit", "off")]);
        }
        Ok(PeerPoolOptions::new().min_connections(4).max_connections(4).connect_with(options).await?)
    }
}
