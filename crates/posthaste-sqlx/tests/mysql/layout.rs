//! Outbox tables of others, on MySQL and MariaDB.

use posthaste_sqlx::layout::{Field, Layout, LayoutStore, LayoutStoreBuilder, State};

use crate::support::*;

#[macro_use]
#[path = "../cases/layout.rs"]
pub(crate) mod cases;

layout_tests!("needs MariaDB: cargo xtask test");

/// Document 004's table with its indexes, as Hibernate would make it.
pub(crate) const ORDER_SERVICE: &str = include_str!("../layouts/mysql/order-service.sql");

/// Document 000's.
pub(crate) const OUTBOX_RECORD: &str = include_str!("../layouts/mysql/outbox-record.sql");

/// Debezium's outbox event router's.
pub(crate) const DEBEZIUM: &str = include_str!("../layouts/mysql/debezium.sql");

pub(crate) fn builder(db: &Db, layout: Layout) -> LayoutStoreBuilder {
    LayoutStore::mysql(&db.options, layout)
}

/// The same by way of another port of this host.
pub(crate) fn builder_at(db: &Db, layout: Layout, port: u16) -> LayoutStoreBuilder {
    LayoutStore::mysql(&db.options.clone().host("127.0.0.1").port(port), layout)
}

/// Ends the sessions of the stores of this test, and those of its own pool.
pub(crate) async fn end_sessions(db: &Db) {
    let ids = "SELECT GROUP_CONCAT(id) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()";
    for id in db.text(ids).await.expect("sessions").split(',') {
        administrate(&format!("KILL {id}")).await;
    }
}

/// Two rows that wait because they have no time.
pub(crate) async fn stamped_table(db: &Db) -> Layout {
    db.execute(
        "CREATE TABLE messages (id BIGINT PRIMARY KEY, kind VARCHAR(64) NOT NULL, body JSON NOT NULL,
           processed_at DATETIME);
         INSERT INTO messages VALUES (1, 'A', '{}', NULL), (2, 'B', '{}', NULL), (3, 'C', '{}', NOW())",
    )
    .await;
    let columns = [
        (Field::Id, "id"),
        (Field::EventType, "kind"),
        (Field::Payload, "body"),
        (Field::SentAt, "processed_at"),
    ];
    cases::described("messages", &columns, &[])
}

/// A table with an enumeration, bytes and an id in sixteen of them; and the id of its row.
pub(crate) async fn odd_table(db: &Db) -> (Layout, String) {
    db.execute(
        r#"CREATE TABLE `Order` (`messageId` BINARY(16) PRIMARY KEY, `eventType` VARCHAR(64) CHARACTER SET latin1,
           tenant VARCHAR(64), head JSON, content BLOB, phase ENUM('waiting', 'gone out', 'lost') NOT NULL);
         INSERT INTO `Order` VALUES (UNHEX('0193a1b2c3d47e5f8a9b0c1d2e3f4a5b'), 'Made', 'acme', '{"region": "eu"}',
           UNHEX('009f9296'), 'waiting')"#,
    )
    .await;
    let columns = [
        (Field::Id, "messageId"),
        (Field::EventType, "eventType"),
        (Field::Tenant, "tenant"),
        (Field::Headers, "head"),
        (Field::Payload, "content"),
        (Field::Status, "phase"),
    ];
    let values = [(State::Pending, "waiting"), (State::Sent, "gone out"), (State::Failed, "lost")];
    (cases::described("Order", &columns, &values), "0193a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b".to_owned())
}
