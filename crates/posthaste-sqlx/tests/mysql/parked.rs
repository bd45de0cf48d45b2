//! The query for parked names is not part of a claim.

use posthaste::store::{Owner, Store as _};
use posthaste_sqlx::MySqlStore;

use crate::support::log::Log;
use crate::support::*;

/// If a failure of that query failed the claim, nothing would be delivered.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test"]
async fn claims_continue_if_the_names_of_parked_rows_cannot_be_read() {
    let db = Db::new().await;
    let name = format!("{}_relay", &db.name[db.name.len() - 16..]);
    let user = format!("'{name}'@'127.0.0.1'");
    let columns = format!(
        "SELECT GROUP_CONCAT(column_name) FROM information_schema.columns \
         WHERE table_schema = '{}' AND table_name = 'outbox_event' AND column_name <> 'parked'",
        db.name
    );
    let columns = db.text(&columns).await.expect("columns");
    administrate(&format!("CREATE USER {user}")).await;
    for grant in [
        format!("GRANT SELECT ({columns}), UPDATE ON outbox_event TO {user}"),
        format!("GRANT SELECT ON outbox_event_schema TO {user}"),
        format!("GRANT SELECT ON outbox_event_control TO {user}"),
        "INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('a', 'Tested', '{}')".to_owned(),
    ] {
        db.execute(&grant).await;
    }
    let log = Log::of_thread();
    let store = MySqlStore::builder(&db.options.clone().username(&name)).connect().await;
    let store = store.expect("the store opens");
    let claimed = store.claim(&claim_for(&Owner::from("tester"))).await.expect("a claim");
    assert_eq!((claimed.events.len(), claimed.parked.len()), (1, 0));
    wait_until("it is logged", async || log.text().contains("may SELECT the column `parked`")).await;
    store.close().await;
    administrate(&format!("DROP USER {user}")).await;
    db.close().await;
}
