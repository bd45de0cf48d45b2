//! Migrations of an outbox in MySQL and MariaDB.
//!
//! These servers commit at every statement that creates or alters a table, so there is no transaction around a
//! migration. Instead each statement can run twice, and an interrupted migration is run again from the beginning.

use posthaste_sql_writer::DatabaseId;
use posthaste_sql_writer::mysql::{DATABASE_ID, Flavour};
use sqlx::mysql::MySqlRow;
use sqlx::{ConnectOptions as _, MySql, MySqlConnection, Row as _};

use super::connection::{Login, explain, server};
use crate::migrations::{MigrateDialect, Migrations, Step, Work};
use crate::{Migration, OpenError, SchemaState};

/// The numbered migrations of one outbox table.
pub type MySqlMigrations = Migrations<MySql>;

/// Creates the outbox table with its indexes.
pub(super) const TABLE: &str = include_str!("../../migrations/mysql/0001_table.sql");

/// The oldest servers that support all statements of the store.
const OLDEST_MARIADB: [u32; 3] = [10, 6, 0];
const OLDEST_MYSQL: [u32; 3] = [8, 0, 13];

/// Lets one process at a time migrate an outbox. The lock belongs to the session and ends with it. Names of locks have
/// at most 64 characters and are global to the server, hence the hash of the database and table names.
const LOCK: &str =
    "SELECT GET_LOCK(CONCAT('posthaste ', LEFT(SHA2(CONCAT(DATABASE(), '.{table}'), 256), 40)), 300)";

const BUSY: &str = "another process has been migrating this outbox for five minutes: see in SHOW \
 PROCESSLIST what it waits for, and try again when it has finished";

/// Adopts a table in three steps: adds the columns that it lacks, numbers its rows, and then adds the columns, keys and
/// constraints that need these numbers.
const ADOPT_COLUMNS: &str = include_str!("../../migrations/mysql/adopt_1_columns.sql");
const ADOPT_ROWS: &str = include_str!("../../migrations/mysql/adopt_2_rows.sql");
const ADOPT_KEYS: &str = include_str!("../../migrations/mysql/adopt_3_keys.sql");

/// Columns that the first and the last of these steps add. They show which steps an interrupted adoption has done.
const FIRST_ADOPTED: &str = "settlement";
const LAST_ADOPTED: &str = "phase";

/// What the server says about itself.
pub(crate) struct ServerInfo {
    pub(super) flavour: Flavour,
    /// True for a replica, and for a server on which `read_only` is set.
    pub(super) read_only: bool,
}

impl MigrateDialect for MySql {
    const STEPS: &'static [Step] = &[Step {
        migration: Migration { version: 1, name: "outbox", works_with: 1 },
        table: TABLE,
        rest: include_str!("../../migrations/mysql/0001_control_audit_archive.sql"),
    }];

    const CREATE_VERSIONS: &'static str = "CREATE TABLE IF NOT EXISTS `{table}_schema` (
  version    INT          NOT NULL PRIMARY KEY,
  name       VARCHAR(255) NOT NULL,
  works_with INT          NOT NULL,
  applied_at DATETIME(6)  NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
";

    const RECORD_VERSION: &'static str =
        "INSERT INTO `{table}_schema` (version, name, works_with) VALUES ({values});\n";

    const RECORDED_VERSIONS: &'static str = "SELECT CAST(COALESCE(MAX(version), 0) AS SIGNED),
  CAST(COALESCE(MAX(works_with), 0) AS SIGNED) FROM `{table}_schema`";

    const COLUMNS: &'static str = "SELECT column_name FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name = ? ORDER BY ordinal_position";

    const TABLES: [&'static str; 2] = ["{table}", "{table}_schema"];

    const SCRIPT_HEADS: [&'static [&'static str]; 2] = [&[], &[]];

    const COMMIT: &'static str = "";

    const ADOPT: &'static [&'static str] = &[ADOPT_COLUMNS, ADOPT_ROWS, ADOPT_KEYS];

    type Server = ServerInfo;
    type Identity = (ServerInfo, DatabaseId);

    async fn open_migration(migrations: &MySqlMigrations, work: Work) -> Result<MySqlConnection, OpenError> {
        let login = &migrations.builder.options;
        if login.get_database().is_none() {
            let source = sqlx::Error::Configuration("no database is named".into());
            return Err(OpenError::NoDatabase { server: server(login), source });
        }
        let mut connection = login.0.clone().disable_statement_logging().connect().await?;
        if work != Work::Check {
            lock(migrations, &mut connection).await?;
        }
        Ok(connection)
    }

    async fn read_server(connection: &mut MySqlConnection) -> Result<ServerInfo, OpenError> {
        let query = sqlx::query("SELECT VERSION(), CAST(@@global.read_only AS CHAR)");
        let row: MySqlRow = query.fetch_one(connection).await?;
        let (version, read_only): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        Ok(ServerInfo { flavour: judge(&version)?, read_only: !matches!(read_only.as_str(), "0" | "OFF") })
    }

    async fn identify(
        migrations: &MySqlMigrations,
        connection: &mut MySqlConnection,
        server_info: ServerInfo,
    ) -> sqlx::Result<(ServerInfo, DatabaseId)> {
        let id = migrations.sql.scalar::<MySql, String>(DATABASE_ID).fetch_one(connection).await?;
        Ok((server_info, DatabaseId::new(id, server(&migrations.builder.options))))
    }

    /// Continues where an interrupted adoption ended. Only the second step can run twice. The first one is skipped if
    /// its columns exist. After the last one this is not called again, because the table is then no longer foreign.
    async fn adopt_table(migrations: &MySqlMigrations, connection: &mut MySqlConnection) -> sqlx::Result<()> {
        let columns = migrations.columns_of(connection, "{table}").await?;
        if !has(&columns, FIRST_ADOPTED) {
            migrations.run(connection, ADOPT_COLUMNS).await?;
        }
        migrations.run(connection, ADOPT_ROWS).await?;
        migrations.run(connection, ADOPT_KEYS).await
    }

    /// The version is recorded last, so an interrupted adoption leaves an empty table of versions.
    fn unrecorded_state(columns: &[String]) -> Option<SchemaState> {
        match (has(columns, FIRST_ADOPTED), has(columns, LAST_ADOPTED)) {
            (_, true) => None,
            (true, false) => {
                Some(SchemaState::Foreign { why: "its adoption was interrupted".to_owned(), adoptable: true })
            }
            (false, false) => Some(SchemaState::foreign(columns)),
        }
    }

    fn explain(login: &Login, error: sqlx::Error) -> OpenError {
        explain(error, &server(login))
    }
}

fn has(columns: &[String], name: &str) -> bool {
    columns.iter().any(|column| column == name)
}

async fn lock(migrations: &MySqlMigrations, connection: &mut MySqlConnection) -> sqlx::Result<()> {
    let locked = migrations.sql.scalar::<MySql, Option<i64>>(LOCK).fetch_one(connection).await?;
    match locked {
        Some(1) => Ok(()),
        _ => Err(sqlx::Error::Protocol(BUSY.to_owned())),
    }
}

/// Returns the kind of server, unless it is too old. A version is three numbers, followed by text of the vendor.
fn judge(version: &str) -> Result<Flavour, OpenError> {
    let numbers = version.split(['.', '-']).map_while(|part| part.parse().ok());
    let numbers: Vec<u32> = numbers.take(3).collect();
    let flavour = Flavour::of(version);
    let (oldest, needed) = match flavour {
        Flavour::MariaDb => (OLDEST_MARIADB, "MariaDB 10.6"),
        _ => (OLDEST_MYSQL, "MySQL 8.0.13 or MariaDB 10.6"),
    };
    match numbers.as_slice() >= oldest.as_slice() {
        true => Ok(flavour),
        false => Err(OpenError::OldServer { found: version.to_owned(), needed }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // F40: MariaDB 10.6 is the first version with SKIP LOCKED, MySQL 8.0.13 the first with expressions as defaults.
    #[test]
    fn too_old_servers_are_refused_with_the_needed_version() {
        for good in ["10.6.0-MariaDB", "10.11.19-MariaDB-0+deb12u1", "11.4.2-MariaDB-log", "12.0.1-MariaDB"] {
            assert_eq!(judge(good).ok(), Some(Flavour::MariaDb), "{good}");
        }
        for good in ["8.0.13", "8.0.36-28.1", "8.4.0", "9.7.4"] {
            assert_eq!(judge(good).ok(), Some(Flavour::MySql), "{good}");
        }
        for (old, needed) in [
            ("10.5.27-MariaDB", "MariaDB 10.6"),
            ("5.5.68-MariaDB", "MariaDB 10.6"),
            ("5.7.44-log", "MySQL 8.0.13"),
            ("8.0.11-TiDB-v7.5.0", "MySQL 8.0.13"),
            ("a toaster", "MySQL 8.0.13"),
        ] {
            let refused = judge(old).expect_err(old).to_string();
            assert!(refused.contains(old) && refused.contains(needed), "{refused}");
        }
    }
}
