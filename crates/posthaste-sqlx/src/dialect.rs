//! The databases, as types: everything in which they differ.

use crate::admin::AdminDialect;
use crate::claim::ClaimDialect;
use crate::diagnose::DiagnoseDialect;
use crate::lease::LeaseDialect;
use crate::settle::SettleDialect;

/// A database for which there is a store. Each part of it is in the file of the same name, here and with the
/// database.
pub(crate) trait Dialect:
    ClaimDialect + SettleDialect + LeaseDialect + AdminDialect + DiagnoseDialect
{
}

#[cfg(feature = "postgres")]
impl Dialect for sqlx::Postgres {}

#[cfg(feature = "mysql")]
impl Dialect for sqlx::MySql {}

#[cfg(feature = "sqlite")]
impl Dialect for sqlx::Sqlite {}
