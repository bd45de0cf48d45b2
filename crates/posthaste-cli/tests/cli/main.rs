//! The command line as a person or a script drives it: the real binary on real SQLite files, on a real
//! PostgreSQL, on a real MariaDB or MySQL, and on a real Redis. One program for all of it: linking it
//! is most of the work.

mod bench;
mod binary;
mod relay_file;
mod change;
mod config;
mod crash;
mod demo;
mod deploy;
mod doctor;
mod every_store;
mod sqlite_outbox;
mod foreign;
mod read;
mod migrate;
mod mysql;
mod mysql_outbox;
mod mysql_errors;
mod route;
mod postgres;
mod postgres_outbox;
mod postgres_errors;
mod redis;
mod redis_outbox;
mod redis_errors;
mod relay;
mod replay;
mod servers;
mod terminal;
mod top;
mod sqlite_errors;
mod usage;
mod watch;
