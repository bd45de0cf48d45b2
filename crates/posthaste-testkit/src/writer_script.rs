//! Runs the transaction scripts of the Writers' conformance suite with any driver.

/// The SQL statements for the steps of a script.
#[derive(Clone, Copy, Debug)]
pub struct Statements {
    /// Creates the service's own table, `orders`.
    pub orders: &'static str,
    /// Makes the outbox table refuse the events that the suite expects to be refused.
    pub refuse_unwritable: &'static str,
    /// Inserts a row of the service.
    pub business: &'static str,
    /// Fails. The transaction continues if the database allows that.
    pub fails: &'static str,
    /// Fails and ends the transaction.
    pub aborts: &'static str,
    /// Whether `fails` ends the transaction as well.
    pub failed_statement_aborts: bool,
}

const REFUSING_CHECK_SQL: &str = "ALTER TABLE outbox_event ADD CHECK (event_type <> 'Unwritable')";

impl Statements {
    /// For PostgreSQL.
    pub const POSTGRES: Self = Self {
        orders: "CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY)",
        refuse_unwritable: REFUSING_CHECK_SQL,
        business: "INSERT INTO orders DEFAULT VALUES",
        fails: "SELECT 1/0",
        aborts: "SELECT 1/0",
        failed_statement_aborts: true,
    };

    /// For MySQL and MariaDB. `aborts` has the effect of a deadlock: the transaction is rolled back, and a statement
    /// fails.
    pub const MYSQL: Self = Self {
        orders: "CREATE TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY)",
        refuse_unwritable: REFUSING_CHECK_SQL,
        business: "INSERT INTO orders () VALUES ()",
        fails: "SELECT * FROM nowhere",
        aborts: "ROLLBACK; SELECT * FROM nowhere",
        failed_statement_aborts: false,
    };

    /// For SQLite.
    pub const SQLITE: Self = Self {
        orders: "CREATE TABLE orders (id INTEGER PRIMARY KEY)",
        refuse_unwritable: "CREATE TRIGGER not_unwritable BEFORE INSERT ON outbox_event
            WHEN NEW.event_type = 'Unwritable' BEGIN SELECT RAISE(ABORT, 'not this type'); END",
        business: "INSERT INTO orders DEFAULT VALUES",
        fails: "INSERT INTO nowhere DEFAULT VALUES",
        aborts: "INSERT OR ROLLBACK INTO orders VALUES (1), (1)",
        failed_statement_aborts: false,
    };
}

/// Defines `play_script`, which runs a script in a transaction of this type, for drivers whose transactions and
/// savepoints are values with async methods. A macro, because the drivers have the same methods but no common trait.
/// `execute` is a function that runs a statement in either type.
#[macro_export]
macro_rules! play_scripts {
    ($tx:ty, $savepoint:ty, $execute:ident) => {
        async fn play_script(
            mut tx: $tx,
            statements: &$crate::writer_script::Statements,
            script: ::posthaste::conformance::Script,
        ) -> Result<Vec<::posthaste::EventId>, ::posthaste::conformance::ScriptError> {
            use ::posthaste::conformance::End;
            let mut written = Vec::new();
            play(&mut tx, statements, script.steps, &mut written).await?;
            match script.end {
                End::Commit => tx.commit().await?,
                End::Rollback => tx.rollback().await?,
                End::Drop => drop(tx),
            }
            Ok(written)
        }

        $crate::play_scripts!(play: $tx, $execute);
        $crate::play_scripts!(play_inside: $savepoint, $execute);
    };
    ($play:ident: $tx:ty, $execute:ident) => {
        async fn $play(
            tx: &mut $tx,
            statements: &$crate::writer_script::Statements,
            steps: Vec<::posthaste::conformance::Step>,
            written: &mut Vec<::posthaste::EventId>,
        ) -> Result<(), ::posthaste::conformance::ScriptError> {
            use ::posthaste::conformance::SavepointEnd;
            $crate::play_steps!(
                [await] $execute, tx, statements, steps, written,
                |undone| { Box::pin($play(tx, statements, undone, written)).await? },
                |nested, end| {
                    let mut inner = tx.savepoint().await?;
                    Box::pin(play_inside(&mut inner, statements, nested, written)).await?;
                    match end {
                        SavepointEnd::Release => inner.release().await?,
                        SavepointEnd::Rollback => inner.rollback().await?,
                        SavepointEnd::Drop => drop(inner),
                    }
                }
            )
        }
    };
}

/// Runs the steps of a script in a transaction of any type: `[await]` for async methods, `[]` for others. The first
/// block runs steps in the same transaction, the second one in a savepoint.
#[macro_export]
macro_rules! play_steps {
    (
        [$($await:ident)?] $execute:ident, $tx:ident, $statements:ident, $steps:ident, $written:ident,
        |$undone:ident| $again:block,
        |$inner:ident, $end:ident| $savepoint:block
    ) => {{
        use ::posthaste::conformance::Step;
        for step in $steps {
            match step {
                Step::Write(event) => $written.extend($tx.write(event)$(.$await)??),
                Step::WriteAll(events) => $written.extend($tx.write_all(events)$(.$await)??),
                Step::FailedWrite(event) => {
                    let _ = $tx.write(event)$(.$await)?.expect_err("the database refuses it");
                }
                Step::Savepoint { steps: $inner, end: $end } => $savepoint,
                Step::Undone($undone) => {
                    $execute($tx, "SAVEPOINT mine")$(.$await)??;
                    $again;
                    $execute($tx, "ROLLBACK TO mine")$(.$await)??;
                    $execute($tx, "RELEASE SAVEPOINT mine")$(.$await)??;
                }
                Step::Business => $execute($tx, $statements.business)$(.$await)??,
                Step::FailedStatement => {
                    let _ = $execute($tx, $statements.fails)$(.$await)?.expect_err("it fails");
                }
                Step::Abort => {
                    let _ = $execute($tx, $statements.aborts)$(.$await)?.expect_err("it fails");
                }
            }
        }
        Ok(())
    }};
}
