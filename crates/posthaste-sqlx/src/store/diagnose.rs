//! Diagnosis of rows and of the server.

use posthaste::admin::{
    Admin as _, Finding, LostLeases, ParkedRoute, PausedRoute, RowObservations, Tolerance,
};
use posthaste::{StoreError, Timestamp};

use super::Dialect;
use super::SqlStore;
use super::admin::AdminDialect;
use crate::findings::ParkedRoutes;
use crate::row::ReadValues;
use crate::sql::Sql;

/// The diagnosis of one database. No statement reads more than a bounded number of rows.
pub(crate) trait DiagnoseDialect: AdminDialect {
    /// The next route with parked events after the bound name, and their number, counted up to one more than a finding
    /// reports.
    const PARKED: &'static str;
    /// For the oldest events parked for a route: when they were inserted, and the beginning of their last error.
    const PARKED_ROWS: &'static str;
    /// The paused routes, since when, and by whom.
    const PAUSED_BY: &'static str;
    /// For the newest events: when they were created, and when they were inserted.
    const NEWEST: &'static str;

    fn diagnose(
        store: &SqlStore<Self>,
        tolerance: &Tolerance,
    ) -> impl Future<Output = Result<Vec<Finding>, StoreError>> + Send;

    /// The number of unreadable events among the oldest pending ones, and those that have lost leases. It is a sign
    /// that something is wrong, not a complete count.
    fn read_doubtful(
        sql: &Sql,
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<(u64, LostLeases)>> + Send;

    /// Reads the clock of the server. `None` if the store uses the clock of this machine.
    const CLOCK: Option<&'static str>;
}

impl<D: Dialect> SqlStore<D> {
    /// Runs one check of the server. A check that the server refuses finds nothing, and the others still run.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) async fn check_server(
        &self,
        check: impl AsyncFnOnce(&mut D::Connection) -> sqlx::Result<Vec<Finding>> + Clone,
    ) -> Vec<Finding> {
        self.read(check).await.unwrap_or_default()
    }

    pub(crate) async fn row_findings(&self, tolerance: &Tolerance) -> Result<Vec<Finding>, StoreError> {
        let stats = self.stats().await?;
        let seen = self.read(async |connection| observe_rows::<D>(self.sql(), connection).await).await?;
        Ok(seen.findings(&stats, tolerance))
    }
}

async fn observe_rows<D: DiagnoseDialect>(
    sql: &Sql,
    connection: &mut D::Connection,
) -> sqlx::Result<RowObservations> {
    D::read_in_order(connection).await?;
    let (unreadable, lost_leases) = D::read_doubtful(sql, connection).await?;
    let newest = D::fetch_all(D::fresh(sql, D::NEWEST), connection).await?;
    let mut observed = RowObservations::default();
    observed.unreadable = unreadable;
    observed.lost_leases = lost_leases;
    observed.parked = read_parked::<D>(sql, connection).await?;
    observed.paused = read_paused::<D>(sql, connection).await?;
    observed.written = newest.iter().filter_map(|row| Some((time(row, 0)?, time(row, 1)?))).collect();
    observed.now = read_clock::<D>(sql, connection).await?;
    Ok(observed)
}

async fn read_clock<D: DiagnoseDialect>(
    sql: &Sql,
    connection: &mut D::Connection,
) -> sqlx::Result<Timestamp> {
    let Some(clock) = D::CLOCK else { return Ok(Timestamp::now()) };
    Ok(D::fetch_one(D::fresh(sql, clock), connection).await?.time_at(0)?.unwrap_or_default())
}

/// Compares the clock of the server with the clock of this machine.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) async fn clock_skew<D: DiagnoseDialect>(
    sql: &Sql,
    connection: &mut D::Connection,
    tolerance: &Tolerance,
) -> sqlx::Result<Vec<Finding>> {
    let before = Timestamp::now();
    let store = read_clock::<D>(sql, connection).await?;
    Ok(Finding::clock_skew(before, store, Timestamp::now(), tolerance).into_iter().collect())
}

/// Reads rows whose headers this program checks. Their columns: whether SQL found the row invalid (0 or 1), `headers`,
/// `event_id`, `lost_leases`.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) async fn read_doubtful<D: DiagnoseDialect>(
    sql: &Sql,
    connection: &mut D::Connection,
    statement: &'static str,
) -> sqlx::Result<(u64, LostLeases)> {
    let rows = D::fetch_all(D::fresh(sql, statement), connection).await?;
    let mut lost = LostLeases::default();
    for row in &rows {
        let id = row.text_at(2)?.unwrap_or_default();
        lost.add(&id, row.int_at(3)?.try_into().unwrap_or(0));
    }
    Ok((rows.iter().filter(|row| is_unreadable(*row)).count() as u64, lost))
}

#[cfg(any(feature = "mysql", feature = "postgres"))]
fn is_unreadable<R: ReadValues>(row: &R) -> bool {
    let is_invalid = row.int_at(0).map_or(true, |is_invalid| is_invalid != 0);
    is_invalid
        || row.text_at(1).map_or(true, |headers| posthaste::decode_headers(headers.as_deref()).is_err())
}

/// A time, if the column contains one. Another program may have written anything, such as a date of zeros.
fn time<R: ReadValues>(row: &R, index: usize) -> Option<Timestamp> {
    row.time_at(index).ok().flatten()
}

async fn read_parked<D: DiagnoseDialect>(
    sql: &Sql,
    connection: &mut D::Connection,
) -> sqlx::Result<Vec<ParkedRoute>> {
    let mut routes = ParkedRoutes::default();
    while let Some(last) = routes.last() {
        let query = D::bind_text(D::fresh(sql, D::PARKED), D::text(&last));
        let row = D::fetch_one(query, connection).await?;
        let (route, waiting) = (row.text_at(0)?.unwrap_or_default(), row.count_at(1)?);
        let mut parked = ParkedRoute::new(route, waiting);
        let query = D::bind_text(D::fresh(sql, D::PARKED_ROWS), parked.route.clone());
        for row in &D::fetch_all(query, connection).await? {
            if let Some(inserted_at) = time(row, 0) {
                parked.see(inserted_at, row.text_at(1)?.as_deref());
            }
        }
        routes.add(parked);
    }
    Ok(routes.into_found())
}

async fn read_paused<D: DiagnoseDialect>(
    sql: &Sql,
    connection: &mut D::Connection,
) -> sqlx::Result<Vec<PausedRoute>> {
    let rows = D::fetch_all(D::fresh(sql, D::PAUSED_BY), connection).await?;
    let paused = |row: &D::Row| {
        Ok(PausedRoute::new(row.text_at(0)?.unwrap_or_default(), time(row, 1), row.text_at(2)?))
    };
    rows.iter().map(paused).collect()
}
