//! What looks wrong with the rows.

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

/// What one database says about itself and its rows. Nothing here reads more than a bounded number of rows.
pub(crate) trait DiagnoseDialect: AdminDialect {
    /// The first route behind this one for which events wait, and how many do: up to one more than a finding
    /// names.
    const PARKED: &'static str;
    /// When the oldest of them were inserted, and what their last errors begin with.
    const PARKED_ROWS: &'static str;
    /// Paused routes, since when, and by whom.
    const PAUSED_BY: &'static str;
    /// When the newest events were made, and when inserted.
    const NEWEST: &'static str;

    fn diagnose(
        store: &SqlStore<Self>,
        tolerance: &Tolerance,
    ) -> impl Future<Output = Result<Vec<Finding>, StoreError>> + Send;

    /// How many of the oldest events cannot be read, and those that lost their lease: a sign that something is wrong,
    /// not a census.
    fn read_doubtful(
        sql: &Sql,
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<(u64, LostLeases)>> + Send;

    fn read_clock(connection: &mut Self::Connection) -> impl Future<Output = sqlx::Result<Timestamp>> + Send;
}

impl<D: Dialect> SqlStore<D> {
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
    observed.now = D::read_clock(connection).await?;
    Ok(observed)
}

/// A foreign program may have left anything there; a date of zeros is no time.
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
