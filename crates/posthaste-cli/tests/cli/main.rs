//! The command line as a person or a script drives it: the real binary on real SQLite files, on a real
//! PostgreSQL, on a real MariaDB or MySQL, and on a real Redis. One program for all of it: linking it
//! is most of the work.

mod bench;
mod binary;
mod change;
mod config;
mod crash;
mod demo;
mod deploy;
mod doctor;
mod every_store;
mod foreign;
mod migrate;
mod mysql;
mod mysql_errors;
mod mysql_outbox;
mod postgres;
mod postgres_errors;
mod postgres_outbox;
mod read;
mod redis;
mod redis_errors;
mod redis_outbox;
mod relay;
mod relay_file;
mod replay;
mod route;
mod servers;
mod sqlite_errors;
mod sqlite_outbox;
mod terminal;
mod top;
mod usage;
mod watch;
