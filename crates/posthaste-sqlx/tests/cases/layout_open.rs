//! What must be so before anything is delivered from an outbox table of others.

#![allow(clippy::unwrap_used, reason = "all of it is tests")]

use posthaste_sqlx::OpenError;
use posthaste_sqlx::layout::Layout;

use super::{User, as_user};
use crate::layout::{DEBEZIUM, ORDER_SERVICE};
use crate::support::*;

/// The tests of this file.
macro_rules! layout_open_tests {
    ($ignored:literal) => {
        crate::server_tests!($ignored, (), right_that_is_missing_is_noticed_before_anything_is_delivered,);
    };
}

pub(crate) async fn right_that_is_missing_is_noticed_before_anything_is_delivered() {
    let db = Db::new().await;
    db.execute(ORDER_SERVICE).await;
    db.execute(DEBEZIUM).await;
    let user = User::new(&db).await;
    let opened = async |layout: Layout| as_user(&db, &user, layout).connect().await.map(drop);
    for (layout, wrong, partly, right) in [
        (Layout::order_service(), "DELETE", "UPDATE (status, sent_at)", "UPDATE"),
        (Layout::debezium(), "UPDATE", "UPDATE (payload)", "DELETE"),
    ] {
        let table = layout.table_name().to_string();
        for granted in ["SELECT", wrong, partly] {
            user.grant(&db, granted, &table).await;
            let error = opened(layout.clone()).await.expect_err(granted);
            assert!(matches!(error, OpenError::NotGranted { .. }), "{granted}: {error:?}");
            let error = error.to_string();
            assert!(error.contains(&format!("GRANT SELECT, {right} ON ")), "{error}");
            assert!(error.contains(&user.name), "{error}");
        }
        as_user(&db, &user, layout.clone())
            .read_only()
            .connect()
            .await
            .expect("one who only looks")
            .close()
            .await;
        user.grant(&db, right, &table).await;
        opened(layout).await.expect("all rights");
    }
    user.drop(&db).await;
    db.close().await;
}
