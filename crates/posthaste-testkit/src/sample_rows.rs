//! A sample shop: rows in every state, for tests of what operators see and do.

/// A row of the shop's outbox, as engines have left it.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its event's id.
    pub id: &'static str,
    /// Its event's type.
    pub event_type: &'static str,
    /// Its order, if it is of one.
    pub order: Option<&'static str>,
    /// Its event's tenant.
    pub tenant: Option<&'static str>,
    /// Its event's payload, a JSON text.
    pub payload: &'static str,
    /// Its event's headers, a JSON object.
    pub headers: Option<&'static str>,
    /// NEW is 0, DONE is 1, RETRY is 2, DEAD is 3.
    pub status: u8,
    /// How many attempts failed.
    pub attempts: u8,
    /// When it is due, as a Unix time in seconds, as all its times.
    pub available_at: i64,
    /// When it was inserted.
    pub inserted_at: i64,
    /// When it became DONE or DEAD.
    pub done_at: Option<i64>,
    /// Why the last attempt failed.
    pub last_error: Option<&'static str>,
}

/// 2020-01-02 03:00 UTC.
pub const PAST_SECONDS: i64 = 1_577_934_000;

/// 2100: a clock that is far ahead, so that the age of what waits is always zero.
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
    /// The type of its event's aggregate.
    pub fn aggregate_type(&self) -> &'static str {
        if self.order.is_some() { "Order" } else { "__GLOBAL__" }
    }
}

/// Two rows that wait, three that are DEAD and three that are DONE. DEAD and DONE ones are of 2020, but for the last,
/// which is DONE in the far future.
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

/// The statement that inserts these rows; `time` says how the database writes a Unix time in seconds.
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
