//! A sample shop: rows in every state, for tests of operators' tools.

/// A row of the shop's outbox. All times are Unix times in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The event's id.
    pub id: &'static str,
    /// The event's type.
    pub event_type: &'static str,
    /// The order, which is the event's aggregate.
    pub order: Option<&'static str>,
    /// The event's tenant.
    pub tenant: Option<&'static str>,
    /// The event's payload, a JSON text.
    pub payload: &'static str,
    /// The event's headers, a JSON object.
    pub headers: Option<&'static str>,
    /// 0 NEW, 1 DONE, 2 RETRY, 3 DEAD.
    pub status: u8,
    /// Number of failed attempts.
    pub attempts: u8,
    /// When the row is due.
    pub available_at: i64,
    /// When the row was inserted.
    pub inserted_at: i64,
    /// When the row became DONE or DEAD.
    pub done_at: Option<i64>,
    /// Error of the last attempt.
    pub last_error: Option<&'static str>,
}

/// 2020-01-02 03:00 UTC.
pub const PAST_SECONDS: i64 = 1_577_934_000;

/// The year 2100. A pending row that is inserted then has the age zero in every test.
pub const FUTURE_SECONDS: i64 = 4_102_444_800;

const ORDER: Row = Row {
    id: "",
    event_type: "OrderPlaced",
    order: None,
    tenant: None,
    payload: "{}",
    headers: None,
    status: 0,
    attempts: 0,
    available_at: PAST_SECONDS,
    inserted_at: PAST_SECONDS,
    done_at: None,
    last_error: None,
};

impl Row {
    /// The event's aggregate type.
    pub fn aggregate_type(&self) -> &'static str {
        if self.order.is_some() { "Order" } else { "__GLOBAL__" }
    }
}

/// Two pending rows, three DEAD and three DONE. The DEAD and DONE rows are of 2020, except the last one, which became
/// DONE in 2100.
pub const ROWS: [Row; 8] = [
    Row {
        id: "n-1",
        order: Some("o-7"),
        tenant: Some("acme"),
        payload: r#"{"total": 42}"#,
        inserted_at: FUTURE_SECONDS,
        ..ORDER
    },
    Row {
        id: "n-2",
        order: Some("o-8"),
        status: 2,
        attempts: 3,
        available_at: FUTURE_SECONDS,
        inserted_at: FUTURE_SECONDS,
        last_error: Some("timeout"),
        ..ORDER
    },
    Row {
        id: "d-1",
        order: Some("o-1"),
        tenant: Some("acme"),
        payload: r#"{"total": 1.50, "items": []}"#,
        headers: Some(r#"{"region":"eu"}"#),
        ..dead(245, "connection refused")
    },
    Row { id: "d-2", order: Some("o-2"), tenant: Some("bolt"), ..dead(246, "connection refused") },
    Row { id: "d-3", event_type: "MailSent", attempts: 0, ..dead(247, "no route") },
    Row { id: "f-1", order: Some("o-3"), ..done(PAST_SECONDS + 248) },
    Row { id: "f-2", order: Some("o-4"), ..done(PAST_SECONDS + 249) },
    Row { id: "f-3", order: Some("o-5"), ..done(FUTURE_SECONDS) },
];

const fn dead(seconds: i64, error: &'static str) -> Row {
    Row { status: 3, attempts: 10, done_at: Some(PAST_SECONDS + seconds), last_error: Some(error), ..ORDER }
}

const fn done(at: i64) -> Row {
    Row { status: 1, done_at: Some(at), ..ORDER }
}

/// The INSERT statement for these rows. `time` formats a Unix time in seconds for the database.
pub fn insert(rows: &[Row], time: impl Fn(i64) -> String) -> String {
    let values: Vec<String> = rows.iter().map(|row| values(row, &time)).collect();
    format!(
        "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, \
         status, attempts, available_at, created_at, inserted_at, done_at, last_error) VALUES\n{}",
        values.join(",\n")
    )
}

fn values(row: &Row, time: impl Fn(i64) -> String) -> String {
    let text = |text: Option<&str>| text.map_or("NULL".to_owned(), |text| format!("'{text}'"));
    let columns = [
        text(Some(row.id)),
        text(Some(row.event_type)),
        text(Some(row.aggregate_type())),
        text(row.order),
        text(row.tenant),
        text(Some(row.payload)),
        text(row.headers),
        row.status.to_string(),
        row.attempts.to_string(),
        time(row.available_at),
        time(PAST_SECONDS),
        time(row.inserted_at),
        row.done_at.map_or("NULL".to_owned(), time),
        text(row.last_error),
    ];
    format!("({})", columns.join(", "))
}
