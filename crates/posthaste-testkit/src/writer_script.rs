//! Plays the scripts of the Writers' suite, on a driver of any kind.

/// What a service says in a script.
#[derive(Clone, Copy, Debug)]
pub struct Statements {
    /// Makes the service's own table, `orders`.
    pub orders: &'static str,
    /// Lets the outbox refuse the events that the suite expects it to.
    pub refuse_unwritable: &'static str,
    /// Writes a row of the service's own.
    pub business: &'static str,
    /// Fails, and leaves the transaction as it was where the database allows it.
    pub fails: &'static str,
    /// Fails, and takes the transaction along.
    pub aborts: &'static str,
    /// Whether what fails does that too.
    pub failed_statement_aborts: bool,
}

const REFUSING_CHECK_SQL: &str = "ALTER TABLE outbox_event ADD CHECK (event_type <> 'Unwritable')";

impl Statements {
    /// On PostgreSQL.
    pub const POSTGRES: Self = Self {
        orders: "CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY)",
        refuse_unwritable: REFUSING_CHECK_SQL,
        business: "INSERT INTO orders DEFAULT VALUES",
        fails: "SELECT 1/0",
        aborts: "SELECT 1/0",
        failed_statement_aborts: true,
    };

    /// On MySQL and MariaDB. A deadlock ends a transaction as the last one does: it is rolled back, and a statement
    /// has failed.
    pub const MYSQL: Self = Self {
        orders: "CREATE TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY)",
        refuse_unwritable: REFUSING_CHECK_SQL,
        business: "INSERT INTO orders () VALUES ()",
        fails: "SELECT * FROM nowhere",
        aborts: "ROLLBACK; SELECT * FROM nowhere",
        failed_statement_aborts: false,
    };

    /// On SQLite.
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

/// Defines `play_script`, which plays a script in a transaction of this kind, for a driver whose transactions and
/// savepoints are values with async methods. They share methods and no type, and so do the drivers. `execute` is a
/// function that runs a statement in either.
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

/// The steps of a script on a transaction of any kind: with `[await]` on async methods, with `[]` on others. The first
/// block plays steps once more in the same transaction, the second one in a savepoint.
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
