//! Tests: the server finds out that whoever had the lock of a table has vanished.

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Postgres};

use super::LayoutTable;
use crate::layout::Layout;
use crate::postgres::Login;
use crate::sql::ready;

const TABLE: &str = "CREATE TABLE outboxevent (id UUID PRIMARY KEY, aggregatetype TEXT NOT NULL,
  aggregateid TEXT NOT NULL, type TEXT NOT NULL, payload JSONB)";

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test"]
async fn server_asks_soon_whether_the_leader_is_there() {
    let url = std::env::var("POSTHASTE_TEST_POSTGRES_URL").expect("run `cargo xtask test`");
    let options: PgConnectOptions = url.parse().expect("a good URL");
    let schema = format!("layout_lock_{}", std::process::id());
    let mut owner = options.connect().await.expect("a connection");
    for text in [&*format!("CREATE SCHEMA {schema}"), &*format!("SET search_path = {schema}"), TABLE] {
        ready::<Postgres>(&text.into()).execute(&mut owner).await.expect("a table");
    }

    let layout = Layout::debezium();
    let place = posthaste_sql::Place::new(layout.table_name().clone());
    let place = place.in_schema(schema.parse().expect("a good name"));
    let table = LayoutTable::open(&Login(options), &place, &layout, false).await.expect("the table opens");
    let mut session = table.session.take().await.expect("a session");
    for (setting, expected) in [
        ("tcp_keepalives_idle", "10"),
        ("tcp_keepalives_interval", "5"),
        ("tcp_keepalives_count", "3"),
        ("tcp_user_timeout", "25000"),
    ] {
        let shown = sqlx::query_scalar("SELECT current_setting($1)").bind(setting);
        let shown: String = shown.fetch_one(&mut session.open.connection).await.expect("a setting");
        assert_eq!(shown, expected, "{setting}");
    }
    drop(session);
    let remove = format!("DROP SCHEMA {schema} CASCADE").into();
    ready::<Postgres>(&remove).execute(&mut owner).await.expect("the schema goes");
}
