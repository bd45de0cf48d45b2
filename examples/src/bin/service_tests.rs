//! A sign-up service whose tests need no database, and those tests.
//!
//! Two things make that possible. The service stores its data through a trait, [`Users`], whose one method also takes
//! the event. And [`routes`] does not depend on a store, so the same routes run on SQLite here and in memory in the
//! tests.
//!
//! `docs/testing-your-service.md` describes the tools one by one.

use async_trait::async_trait;
use posthaste::{BoxError, Destination, Event, Outbox, Route, Routes};
use posthaste_sqlx::{SqliteStore, SqliteWriter};
use serde::{Deserialize, Serialize};
use sqlx::SqlitePool;

/// A user has signed up.
#[derive(Debug, PartialEq, Serialize, Deserialize, Event)]
#[event(type = "UserCreated")]
struct UserCreated {
    email: String,
}

/// Storage of users.
#[async_trait]
trait Users {
    /// Stores a user and an event: both or neither.
    async fn add(&self, email: &str, event: Event) -> Result<(), BoxError>;
}

/// The service itself, which depends neither on the database nor on the engine.
async fn sign_up(users: &impl Users, email: &str) -> Result<(), BoxError> {
    if !email.contains('@') {
        return Err("that is no email address".into());
    }
    let event = Event::of(&UserCreated { email: email.to_owned() })?;
    users.add(email, event).await
}

/// The routes. The mail server is an argument, so that a test can pass its own.
fn routes(mail: impl Destination) -> Routes {
    Routes::new().add(Route::event("UserCreated").deliver_to(mail))
}

/// Users in SQLite, for production.
struct SqliteUsers {
    pool: SqlitePool,
    writer: SqliteWriter,
}

#[async_trait]
impl Users for SqliteUsers {
    async fn add(&self, email: &str, event: Event) -> Result<(), BoxError> {
        let mut tx = self.writer.begin(&self.pool).await?;
        sqlx::query("INSERT INTO users (email) VALUES (?)").bind(email).execute(&mut *tx).await?;
        tx.write(event).await?;
        Ok(tx.commit().await?)
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let mail = posthaste::handler(async |user: UserCreated, _: posthaste::Delivery| {
        println!("welcome, {}", user.email);
    });
    let (users, outbox) = open("sqlite::memory:", mail).await?;
    sign_up(&users, "ada@example.com").await?;
    outbox.shutdown().await;
    Ok(())
}

async fn open(database: &str, mail: impl Destination) -> Result<(SqliteUsers, Outbox), BoxError> {
    let pool = SqlitePool::connect(database).await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS users (email TEXT PRIMARY KEY)").execute(&pool).await?;
    let store = SqliteStore::builder(&pool.connect_options()).migrate().connect().await?;
    let outbox = Outbox::builder(store.clone(), routes(mail)).start()?;
    let writer = SqliteWriter::new(&store, &outbox);
    Ok((SqliteUsers { pool, writer }, outbox))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use posthaste::{MemoryStore, MemoryWriter, Outcome, Recorder, RetryPolicy, Status};

    use super::*;

    /// Users in memory. Stores only the event, which is all that these tests check.
    struct MemoryUsers(MemoryWriter);

    #[async_trait]
    impl Users for MemoryUsers {
        async fn add(&self, _: &str, event: Event) -> Result<(), BoxError> {
            let mut tx = self.0.begin().await?;
            tx.write(event).await?;
            Ok(tx.commit().await?)
        }
    }

    /// The service as a test starts it, with exact retries after half a minute.
    struct Service {
        store: MemoryStore,
        outbox: Outbox,
        users: MemoryUsers,
    }

    impl Service {
        fn with(mail: &Recorder) -> Self {
            let store = MemoryStore::new();
            let retry = RetryPolicy::default().with_base_delay(Duration::from_secs(30)).without_jitter();
            let outbox = Outbox::builder(store.clone(), routes(mail.clone())).single_node().retry(retry);
            let outbox = outbox.start().unwrap();
            let users = MemoryUsers(MemoryWriter::new(&store, &outbox));
            Self { store, outbox, users }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn new_user_gets_one_mail() {
        let mail = Recorder::new();
        let service = Service::with(&mail);

        sign_up(&service.users, "ada@example.com").await.unwrap();
        service.outbox.idle().await.unwrap();

        let mails: Vec<UserCreated> =
            mail.deliveries().iter().map(|mail| mail.payload_as().unwrap()).collect();
        assert_eq!(mails, [UserCreated { email: "ada@example.com".to_owned() }]);
    }

    #[tokio::test(start_paused = true)]
    async fn refused_user_gets_no_mail() {
        let mail = Recorder::new();
        let service = Service::with(&mail);

        sign_up(&service.users, "not-an-address").await.unwrap_err();
        service.outbox.idle().await.unwrap();

        assert_eq!(mail.count(), 0);
        assert!(service.store.rows().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn mail_that_fails_is_sent_again_half_a_minute_later() {
        let mail = Recorder::with(|mail| match mail.attempt {
            1 => Outcome::retry("busy"),
            _ => Outcome::done(),
        });
        let service = Service::with(&mail);
        sign_up(&service.users, "ada@example.com").await.unwrap();
        service.outbox.idle().await.unwrap();
        assert_eq!(service.store.rows()[0].status, Status::Retry);

        tokio::time::sleep(Duration::from_secs(30)).await;
        service.outbox.idle().await.unwrap();

        assert_eq!(service.store.rows()[0].status, Status::Done);
        assert_eq!(mail.count(), 2);
    }

    /// The only test of the database itself, on SQLite in memory.
    #[tokio::test]
    async fn existing_user_is_refused_and_gets_no_second_mail() {
        let mail = Recorder::new();
        let (users, outbox) = open("sqlite::memory:", mail.clone()).await.unwrap();

        sign_up(&users, "ada@example.com").await.unwrap();
        sign_up(&users, "ada@example.com").await.unwrap_err();
        outbox.idle().await.unwrap();

        assert_eq!(mail.count(), 1);
        outbox.shutdown().await;
    }
}
