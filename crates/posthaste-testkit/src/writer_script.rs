//! Plays the scripts of the Writers' suite on a driver whose transactions are values with async methods.

/// What a service says in a script.
#[derive(Clone, Copy, Debug)]
pub struct Statements {
    /// Writes a row of the service's own.
    pub business: &'static str,
    /// Fails, and leaves the transaction as it was where the database allows it.
    pub fails: &'static str,
    /// Fails, and takes the transaction along.
    pub aborts: &'static str,
}

/// Defines `play`, which plays steps on this kind of transaction and its savepoints. They share methods and
/// no type, and so do the drivers. `execute` is a function that runs a statement in either.
#[macro_export]
macro_rules! play_scripts {
    ($tx:ty, $savepoint:ty, $statements:expr, $execute:ident) => {
        async fn play(
            tx: &mut $tx,
            steps: Vec<::posthaste::conformance::Step>,
            written: &mut Vec<::posthaste::EventId>,
        ) -> Result<(), ::posthaste::conformance::ScriptError> {
            $crate::play_steps!(play, $execute, $statements, tx, steps, written)
        }

        async fn play_inside(
            tx: &mut $savepoint,
            steps: Vec<::posthaste::conformance::Step>,
            written: &mut Vec<::posthaste::EventId>,
        ) -> Result<(), ::posthaste::conformance::ScriptError> {
            $crate::play_steps!(play_inside, $execute, $statements, tx, steps, written)
        }
    };
}

/// The steps themselves, for [`play_scripts!`].
#[doc(hidden)]
#[macro_export]
macro_rules! play_steps {
    ($play:ident, $execute:ident, $statements:expr, $tx:ident, $steps:ident, $written:ident) => {{
        use ::posthaste::conformance::{SavepointEnd, Step};
        for step in $steps {
            match step {
                Step::Write(event) => $written.extend($tx.write(event).await?),
                Step::WriteAll(events) => $written.extend($tx.write_all(events).await?),
                Step::FailedWrite(event) => {
                    let _ = $tx.write(event).await.expect_err("the database refuses it");
                }
                Step::Savepoint { steps, end } => {
                    let mut inner = $tx.savepoint().await?;
                    Box::pin(play_inside(&mut inner, steps, $written)).await?;
                    match end {
                        SavepointEnd::Release => inner.release().await?,
                        SavepointEnd::Rollback => inner.rollback().await?,
                        SavepointEnd::Drop => drop(inner),
                    }
                }
                Step::Undone(steps) => {
                    $execute($tx, "SAVEPOINT mine").await?;
                    Box::pin($play($tx, steps, $written)).await?;
                    $execute($tx, "ROLLBACK TO mine").await?;
                    $execute($tx, "RELEASE SAVEPOINT mine").await?;
                }
                Step::Business => $execute($tx, $statements.business).await?,
                Step::FailedStatement => {
                    let _ = $execute($tx, $statements.fails).await.expect_err("it fails");
                }
                Step::Abort => {
                    let _ = $execute($tx, $statements.aborts).await.expect_err("it fails");
                }
            }
        }
        Ok(())
    }};
}

/// Makes a test of each of these async functions of a module: cases that every server passes. `#[tokio::test]` has the
/// arguments in parentheses, if there are any.
#[macro_export]
macro_rules! server_tests {
    ($module:path, $ignored:literal, $($case:ident),* $(,)?) => {
        $crate::server_tests!($module, $ignored, (), $($case),*);
    };
    ($module:path, $ignored:literal, $runtime:tt, $($case:ident),* $(,)?) => {$(
        #[tokio::test $runtime]
        #[ignore = $ignored]
        async fn $case() {
            use $module as cases;
            cases::$case().await;
        }
    )*};
}

/// Writes an event on a pool of sqlx that leads to another database, through the Writer, and then sends
/// a COMMIT whatever it returned.
#[macro_export]
macro_rules! write_elsewhere {
    ($writer:expr, $pool:expr, $event:expr, $way:expr, $begin:expr) => {
        match $way {
            ::posthaste::conformance::Way::Transaction => match $writer.begin($pool).await {
                Err(error) => Err(error.into()),
                Ok(mut tx) => {
                    let answer = tx.write($event).await.map(drop);
                    let _ = tx.commit().await;
                    answer
                }
            },
            ::posthaste::conformance::Way::Receipt => {
                let mut tx = $pool.begin_with($begin).await.expect("a transaction");
                let answer = $writer.insert(&mut tx, $event).await.map(drop);
                let _ = tx.commit().await;
                answer
            }
        }
    };
}
