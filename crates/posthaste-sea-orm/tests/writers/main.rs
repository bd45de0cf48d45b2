//! Tests of the Writer on SeaORM on every database, in one program because linking takes most of the build time.

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
