//! Numbered migrations of one outbox table. They are counted in a table of their own, named after
//! the outbox, and never touch the migrations of the service.
//!
//! Statements that create or alter a table cannot be rolled back here, so each of them may be run twice:
//! whoever was interrupted begins again.

use posthaste_sql_writer::DatabaseId;
use posthaste_sql_writer::mysql::{DATABASE_ID, Flavour};
use sqlx::mysql::MySqlRow;
use sqlx::{ConnectOptions as _, Connection as _, MySql, MySqlConnection, Row as _};

use super::connection::{Login, explain, server};
use crate::schema::RecordedVersions;
use crate::sql::Sql;
use crate::{Migration, OpenError, SchemaState};

/// What creates the table, which an adopted one does without, and what creates the rest.
struct Step {
    migration: Migration,
    table: &'static str,
    rest: &'static str,
}

const STEPS: [Step; 1] = [Step {
    migration: Migration { version: 1, name: "outbox", works_with: 1 },
    table: TABLE,
    rest: include_str!("../../migrations/mysql/0001_rest.sql"),
}];

/// What creates the table with its indexes.
pub(super) const TABLE: &str = include_str!("../../migrations/mysql/0001_table.sql");

impl Step {
    /// What takes the place of the first step's own table where there is one already.
    fn adopted_table(&self) -> &'static [&'static str] {
        match self.migration.version {
            1 => &[ADOPT_COLUMNS, ADOPT_ROWS, ADOPT_KEYS],
            _ => &[],
        }
    }
}

const LATEST: u32 = STEPS[STEPS.len() - 1].migration.version;

/// The oldest servers that have everything the statements need.
const OLDEST_MARIADB: [u32; 3] = [10, 6, 0];
const OLDEST_MYSQL: [u32; 3] = [8, 0, 13];

/// One migration at a time, however many nodes start at once. A lock of the session's: it ends with it.
const LOCK: &str =
    "SELECT GET_LOCK(CONCAT('posthaste ', LEFT(SHA2(CONCAT(DATABASE(), '.{table}'), 256), 40)), 300)";

const BUSY: &str = "another process has been migrating this outbox for five minutes: see what it waits for, in \
                    SHOW PROCESSLIST, and try again when it is done";

const VERSIONS: &str = "CREATE TABLE IF NOT EXISTS `{table}_schema` (
  version    INT          NOT NULL PRIMARY KEY,
  name       VARCHAR(255) NOT NULL,
  works_with INT          NOT NULL,
  applied_at DATETIME(6)  NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
";

const COLUMNS: &str = "SELECT column_name FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name = ? ORDER BY ordinal_position";

/// What an adopted table gets, in three steps: the columns that it lacks, its rows' numbers, and then what
/// needs them.
const ADOPT_COLUMNS: &str = include_str!("../../migrations/mysql/adopt_1_columns.sql");
const ADOPT_ROWS: &str = include_str!("../../migrations/mysql/adopt_2_rows.sql");
const ADOPT_KEYS: &str = include_str!("../../migrations/mysql/adopt_3_keys.sql");

/// Columns that the first and the last of these steps add.
const FIRST_ADOPTED: &str = "settlement";
const LAST_ADOPTED: &str = "phase";

const NOTE: &str = "INSERT INTO `{table}_schema` (version, name, works_with) VALUES (?, ?, ?)";

/// The numbered migrations of one outbox table.
#[derive(Clone, Debug)]
pub struct MySqlMigrations {
    options: Login,
    sql: Sql,
}

impl MySqlMigrations {
    pub(super) fn new(options: Login, sql: Sql) -> Self {
        Self { options, sql }
    }

    /// All migrations as one SQL text, for those who apply it with a tool of their own.
    pub fn sql(&self) -> String {
        let steps: String = STEPS.iter().map(|step| self.step_text(step, &[step.table])).collect();
        self.sql.text(VERSIONS).to_string() + &steps
    }

    /// The statements that [`adopt`](Self::adopt) runs: three of them write every row anew.
    pub fn adoption_sql(&self) -> String {
        let steps: String = STEPS.iter().map(|step| self.step_text(step, step.adopted_table())).collect();
        self.sql.text(VERSIONS).to_string() + &steps
    }

    /// What state the schema is in. Changes nothing.
    pub async fn check(&self) -> Result<SchemaState, OpenError> {
        self.alone(async |connection| Ok(self.read_state(connection).await?.schema)).await
    }

    /// Applies what is missing, and answers what was applied. Safe when several processes start at once:
    /// they wait for each other. If it is interrupted, run it again.
    pub async fn apply(&self) -> Result<Vec<Migration>, OpenError> {
        self.alone(async |connection| {
            let state = self.lock_and_read(connection).await?;
            self.bring_up_to_date(connection, state).await
        })
        .await
    }

    /// As [`apply`](Self::apply); a table of document 003's shape becomes an outbox first, with all
    /// its rows. Nobody may write to it meanwhile. Answers what was applied.
    pub async fn adopt(&self) -> Result<Vec<Migration>, OpenError> {
        self.alone(async |connection| match self.lock_and_read(connection).await? {
            SchemaState::Foreign { adoptable: true, .. } => self.adopt_table(connection).await,
            state => self.bring_up_to_date(connection, state).await,
        })
        .await
    }

    /// Refuses everything but a schema that this program can work with, on a server that can serve
    /// it. Returns the server, and which database of it this is.
    pub(super) async fn expect_current(&self) -> Result<(ServerInfo, DatabaseId), OpenError> {
        self.alone(async |connection| {
            let state = self.read_state(connection).await?;
            match state.schema {
                SchemaState::Current { .. } => Ok((state.server, self.read_database_id(connection).await?)),
                other => Err(other.refuse(&self.sql, LATEST)),
            }
        })
        .await
    }

    async fn read_database_id(&self, connection: &mut MySqlConnection) -> sqlx::Result<DatabaseId> {
        let id = self.sql.scalar::<MySql, String>(DATABASE_ID).fetch_one(connection).await?;
        Ok(DatabaseId::new(id, server(&self.options)))
    }

    async fn lock_and_read(&self, connection: &mut MySqlConnection) -> Result<SchemaState, OpenError> {
        let locked = self.sql.scalar::<MySql, Option<i64>>(LOCK).fetch_one(&mut *connection).await?;
        if locked != Some(1) {
            return Err(OpenError::Database(sqlx::Error::Protocol(BUSY.to_owned())));
        }
        Ok(self.read_state(connection).await?.schema)
    }

    async fn bring_up_to_date(
        &self,
        connection: &mut MySqlConnection,
        state: SchemaState,
    ) -> Result<Vec<Migration>, OpenError> {
        match state {
            SchemaState::Missing => self.apply_after(connection, 0).await,
            SchemaState::Current { .. } => Ok(Vec::new()),
            SchemaState::Behind { version, .. } => self.apply_after(connection, version).await,
            unusable => Err(unusable.refuse(&self.sql, LATEST)),
        }
    }

    async fn apply_after(
        &self,
        connection: &mut MySqlConnection,
        version: u32,
    ) -> Result<Vec<Migration>, OpenError> {
        self.sql.script(VERSIONS).execute(&mut *connection).await?;
        let mut applied = Vec::new();
        for step in STEPS.iter().filter(|step| step.migration.version > version) {
            self.sql.script(step.table).execute(&mut *connection).await?;
            self.sql.script(step.rest).execute(&mut *connection).await?;
            let note = self.sql.query::<MySql>(NOTE).bind(step.migration.version);
            let note = note.bind(step.migration.name).bind(step.migration.works_with);
            note.execute(&mut *connection).await?;
            applied.push(step.migration);
        }
        Ok(applied)
    }

    /// Makes an outbox of a table of document 003's shape, beginning where an earlier attempt ended.
    async fn adopt_table(&self, connection: &mut MySqlConnection) -> Result<Vec<Migration>, OpenError> {
        self.sql.script(VERSIONS).execute(&mut *connection).await?;
        let columns = self.columns_of(connection, "{table}").await?;
        if !columns.iter().any(|column| column == FIRST_ADOPTED) {
            self.sql.script(ADOPT_COLUMNS).execute(&mut *connection).await?;
        }
        self.sql.script(ADOPT_ROWS).execute(&mut *connection).await?;
        self.sql.script(ADOPT_KEYS).execute(&mut *connection).await?;
        self.apply_after(connection, 0).await
    }

    async fn read_state(&self, connection: &mut MySqlConnection) -> Result<State, OpenError> {
        let server = read_server(connection).await?;
        let columns = self.columns_of(connection, "{table}").await?;
        let schema = match columns.is_empty() {
            true => SchemaState::Missing,
            false => self.read_version(connection, &columns).await?,
        };
        Ok(State { server, schema })
    }

    async fn read_version(
        &self,
        connection: &mut MySqlConnection,
        columns: &[String],
    ) -> Result<SchemaState, OpenError> {
        let has = |name: &str| columns.iter().any(|column| column == name);
        if self.columns_of(connection, "{table}_schema").await?.is_empty() {
            return Ok(SchemaState::foreign(columns));
        }
        let recorded = "SELECT MAX(version), MAX(works_with) FROM `{table}_schema`";
        let recorded = self.sql.query::<MySql>(recorded).fetch_one(connection).await?;
        let number =
            |column: usize| recorded.try_get::<Option<i32>, _>(column).map(|n| n.map(i32::cast_unsigned));
        let recorded = RecordedVersions { version: number(0)?, works_with: number(1)? };
        match recorded.version {
            // Somebody was interrupted.
            None if !has(LAST_ADOPTED) && has(FIRST_ADOPTED) => {
                Ok(SchemaState::Foreign { why: "its adoption was interrupted".to_owned(), adoptable: true })
            }
            None if !has(LAST_ADOPTED) => Ok(SchemaState::foreign(columns)),
            _ => Ok(SchemaState::of_version(recorded, LATEST)),
        }
    }

    async fn columns_of(
        &self,
        connection: &mut MySqlConnection,
        table: &'static str,
    ) -> sqlx::Result<Vec<String>> {
        let query = self.sql.query::<MySql>(COLUMNS).bind(self.sql.text(table).to_string());
        query.fetch_all(connection).await?.iter().map(|row| row.try_get(0)).collect()
    }

    /// Runs work on a connection of its own.
    async fn alone<T>(
        &self,
        work: impl AsyncFnOnce(&mut MySqlConnection) -> Result<T, OpenError>,
    ) -> Result<T, OpenError> {
        if self.options.get_database().is_none() {
            let source = sqlx::Error::Configuration("no database is named".into());
            return Err(OpenError::NoDatabase { server: server(&self.options), source });
        }
        let options = self.options.0.clone().disable_statement_logging();
        let mut connection = options.connect().await.map_err(|error| self.explain(error))?;
        let answer = work(&mut connection).await.map_err(|error| match error {
            OpenError::Database(error) => self.explain(error),
            known => known,
        })?;
        let _ = connection.close().await;
        Ok(answer)
    }

    fn explain(&self, error: sqlx::Error) -> OpenError {
        explain(error, &server(&self.options))
    }

    fn step_text(&self, step: &Step, table: &[&str]) -> String {
        let Migration { version, name, works_with } = step.migration;
        let note = format!(
            "INSERT INTO `{{table}}_schema` (version, name, works_with) VALUES ({version}, '{name}', {works_with});\n"
        );
        table.iter().chain(&[step.rest, &note]).map(|part| self.sql.text(part).to_string()).collect()
    }
}

struct State {
    server: ServerInfo,
    schema: SchemaState,
}

/// What a server says about itself.
pub(super) struct ServerInfo {
    pub(super) flavour: Flavour,
    /// A replica, or a server that was told so.
    pub(super) read_only: bool,
}

async fn read_server(connection: &mut MySqlConnection) -> Result<ServerInfo, OpenError> {
    let query = sqlx::query("SELECT VERSION(), CAST(@@global.read_only AS CHAR)");
    let row: MySqlRow = query.fetch_one(connection).await?;
    let (version, read_only): (String, String) = (row.try_get(0)?, row.try_get(1)?);
    Ok(ServerInfo { flavour: judge(&version)?, read_only: !matches!(read_only.as_str(), "0" | "OFF") })
}

/// Which server this is, if it is not too old. A version is three numbers, and whatever its maker adds.
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

    // F40: SKIP LOCKED came with these.
    #[test]
    fn servers_that_are_too_old_are_refused_with_what_is_needed() {
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
