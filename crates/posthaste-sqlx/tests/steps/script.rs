//! Plays the scripts of the Writers' suite on sqlx.

/// Defines `play`, which plays steps on this kind of transaction and its savepoints. They share methods and
/// no type, and so do the databases.
#[macro_export]
macro_rules! play_scripts {
    ($tx:ty, $savepoint:ident, $statements:expr) => {
        async fn play(tx: &mut $tx, steps: Vec<Step>, written: &mut Vec<EventId>) -> Result<(), ScriptError> {
            $crate::play_steps!(play, $statements, tx, steps, written)
        }

        async fn play_inside(
            tx: &mut $savepoint<'_>,
            steps: Vec<Step>,
            written: &mut Vec<EventId>,
        ) -> Result<(), ScriptError> {
            $crate::play_steps!(play_inside, $statements, tx, steps, written)
        }
    };
}

/// The steps themselves.
#[macro_export]
macro_rules! play_steps {
    ($play:ident, $statements:expr, $tx:ident, $steps:ident, $written:ident) => {{
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
                    $tx.execute("SAVEPOINT mine").await.map_err(BoxError::from)?;
                    Box::pin($play($tx, steps, $written)).await?;
                    $tx.execute("ROLLBACK TO mine").await.map_err(BoxError::from)?;
                    $tx.execute("RELEASE SAVEPOINT mine").await.map_err(BoxError::from)?;
                }
                Step::Business => {
                    $tx.execute($statements.business).await.map_err(BoxError::from)?;
                }
                Step::FailedStatement => {
                    let _ = $tx.execute($statements.fails).await.expect_err("it fails");
                }
                Step::Abort => {
                    let _ = $tx.execute($statements.aborts).await.expect_err("it fails");
                }
            }
        }
        Ok(())
    }};
}

/// Writes an event on a pool that leads to another database, through one of the Writer's doors, and then
/// sends a COMMIT whatever was answered.
#[macro_export]
macro_rules! write_elsewhere {
    ($writer:expr, $pool:expr, $event:expr, $way:expr, $begin:expr) => {
        match $way {
            Way::Transaction => match $writer.begin($pool).await {
                Err(error) => Err(error.into()),
                Ok(mut tx) => {
                    let answer = tx.write($event).await.map(drop);
                    let _ = tx.commit().await;
                    answer
                }
            },
            Way::Receipt => {
                let mut tx = $pool.begin_with($begin).await.expect("a transaction");
                let answer = $writer.insert(&mut tx, $event).await.map(drop);
                let _ = tx.commit().await;
                answer
            }
        }
    };
}

/// What a service says in a script.
pub struct Statements {
    pub business: &'static str,
    pub fails: &'static str,
    pub aborts: &'static str,
}
