//! Counts round trips on the wire: a transaction with an event takes no more than one written by hand.

use posthaste::BoxError;
use posthaste_testkit::proxy::BrokenCommit;
use posthaste_tokio_postgres::PreparedClient;

use crate::support::{Db, broken_commit, connect, event, events, pool};

const INSERT_ORDER_SQL: &str = "INSERT INTO orders DEFAULT VALUES";

/// The number of round trips of this work.
async fn round_trips(proxy: &BrokenCommit, work: impl Future<Output = Result<(), BoxError>>) -> usize {
    let before = proxy.round_trips();
    work.await.expect("it works");
    proxy.round_trips() - before
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn transaction_with_an_event_takes_as_many_round_trips_as_one_written_by_hand() {
    let db = Db::new().await;
    let ((proxy, config), writer) = (broken_commit(&db.config).await, db.plain_writer());

    let mut client = connect(&config).await;
    let order = client.prepare(INSERT_ORDER_SQL).await.unwrap();
    let by_hand =
        "INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('by-hand', 'Tested', '{}')";
    let by_hand = client.prepare(by_hand).await.unwrap();
    let by_hand = round_trips(&proxy, async {
        let tx = client.transaction().await?;
        let results = tokio::join!(tx.execute(&order, &[]), tx.execute(&by_hand, &[]));
        results.0?;
        results.1?;
        Ok(tx.commit().await?)
    });
    let by_hand = by_hand.await;
    assert_eq!(by_hand, 3, "BEGIN, both INSERTs, COMMIT");

    let bare = round_trips(&proxy, async {
        let tx = writer.begin(&mut client).await?;
        let results = tokio::join!(tx.execute(&order, &[]), tx.write(event("bare")));
        results.0?;
        results.1?;
        Ok(tx.commit().await?)
    });
    assert_eq!(bare.await, by_hand, "a bare client, from its first transaction on");

    let mut prepared = PreparedClient::new(client);
    writer.begin(&mut prepared).await.unwrap().commit().await.unwrap();
    let prepared = round_trips(&proxy, async {
        let tx = writer.begin(&mut prepared).await?;
        let results = tokio::join!(tx.execute(&order, &[]), tx.write(event("prepared")));
        results.0?;
        results.1?;
        Ok(tx.commit().await?)
    });
    assert_eq!(prepared.await, by_hand, "a client that keeps statements prepared");

    let pool = pool(&config, 1);
    let mut object = pool.get().await.unwrap();
    writer.begin(&mut object).await.unwrap().commit().await.unwrap();
    let order = object.prepare_cached(INSERT_ORDER_SQL).await.unwrap();
    let pooled = round_trips(&proxy, async {
        let tx = writer.begin(&mut object).await?;
        let results = tokio::join!(tx.execute(&order, &[]), tx.write(event("pooled")));
        results.0?;
        results.1?;
        Ok(tx.commit().await?)
    });
    assert_eq!(pooled.await, by_hand, "a connection of a pool");
    assert_eq!(db.ids().await, ["by-hand", "bare", "prepared", "pooled"]);
    db.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn many_events_and_their_proof_take_no_extra_round_trip() {
    let db = Db::new().await;
    let ((proxy, config), writer) = (broken_commit(&db.config).await, db.plain_writer());
    let mut client = connect(&config).await;
    let taken = round_trips(&proxy, async {
        let tx = writer.begin(&mut client).await?;
        let batch = events(&["a", "b", "c"]);
        let results =
            tokio::join!(tx.write_all(batch), tx.write(event("d")), tx.batch_execute(INSERT_ORDER_SQL));
        results.0?;
        results.1?;
        results.2?;
        Ok(tx.commit().await?)
    });
    assert_eq!(taken.await, 3);
    assert_eq!(db.ids().await, ["a", "b", "c", "d"]);
    db.close().await;
}

/// The INSERT itself returns whether a savepoint is open.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn insert_with_a_receipt_takes_one_round_trip() {
    let db = Db::new().await;
    let (proxy, config) = broken_commit(&db.config).await;
    let scene = posthaste::conformance::Scene::start(db.store.clone());
    let writer = posthaste_tokio_postgres::PgWriter::new(&db.store, scene.outbox());
    let mut client = connect(&config).await;
    let taken = round_trips(&proxy, async {
        let tx = client.transaction().await?;
        let receipt = writer.insert(&tx, event("a")).await?;
        tx.commit().await?;
        scene.outbox().committed(receipt);
        Ok(())
    });
    assert_eq!(taken.await, 3, "BEGIN, INSERT, COMMIT");
    scene.outbox().shutdown().await;
    db.close().await;
}
