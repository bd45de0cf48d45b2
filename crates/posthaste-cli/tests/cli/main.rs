//! The command line as a person or a script drives it: the real binary on real SQLite files, on a real
//! PostgreSQL, on a real MariaDB or MySQL, and on a real Redis. One program for all of it: linking it
//! is most of the work.

mod bench;
mod binary;
mod change;
mod command_output;
mod config;
mod crash;
mod demo;
mod deploy;
mod doctor;
mod every_store;
mod foreign;
mod migrate;
mod on_stores;
mod other_urls;
mod read;
mod redis;
mod redis_shop;
mod relay;
mod relay_file;
mod replay;
mod route;
mod server_errors;
mod shop;
mod sqlite_errors;
mod terminal;
mod top;
mod usage;
mod watch;
