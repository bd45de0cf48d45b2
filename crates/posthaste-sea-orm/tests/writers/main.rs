//! The Writer on SeaORM, on every database. One program for all of them: linking it is most of the work.

#[cfg(feature = "postgres")]
mod grants;
#[cfg(feature = "mysql")]
mod mysql_writer_conformance;
#[cfg(feature = "postgres")]
mod postgres_writer_conformance;
#[cfg(feature = "sqlite")]
mod sqlite_writer_conformance;
mod support;
#[cfg(all(feature = "postgres", feature = "sqlite"))]
mod writer;
