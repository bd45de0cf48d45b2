//! Tests of the Writers of diesel and diesel-async on every database, in one program because linking takes most of the
//! build time.

#[macro_use]
mod support;

#[cfg(feature = "async-sqlite")]
mod any_transaction;
#[cfg(all(feature = "async-mysql", feature = "async-postgres", feature = "async-sqlite"))]
mod async_cancel;
#[cfg(feature = "async-mysql")]
mod async_mysql_writer_conformance;
#[cfg(feature = "async-postgres")]
mod async_postgres_writer_conformance;
#[cfg(feature = "async-sqlite")]
mod async_sqlite_writer_conformance;
#[cfg(all(feature = "postgres", feature = "async-postgres"))]
mod commit;
#[cfg(all(feature = "postgres", feature = "async-postgres"))]
mod grants;
#[cfg(all(feature = "mysql", feature = "async-mysql"))]
mod mysql_deadlock;
#[cfg(feature = "mysql")]
mod mysql_writer_conformance;
#[cfg(feature = "postgres")]
mod postgres_writer_conformance;
#[cfg(feature = "sqlite")]
mod sqlite_writer_conformance;
