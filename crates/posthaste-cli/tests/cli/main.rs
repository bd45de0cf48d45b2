//! The command line as a person or a script drives it: the real binary on real SQLite files, on a real
//! PostgreSQL, on a real MariaDB or MySQL, and on a real Redis. One program for all of it: linking it
//! is most of the work.

mod bench;
mod binary;
mod change_commands;
mod command_output;
mod config;
mod demo;
mod demo_crash;
mod deploy;
mod doctor;
mod foreign;
mod migrate;
mod on_stores;
mod operator_commands;
mod other_urls;
mod read_commands;
mod redis;
mod redis_shop;
mod relay;
mod relay_file;
mod replay;
mod route;
mod server_errors;
mod shop;
mod sqlite_errors;
mod terminal_safety;
mod top;
mod usage;
mod watch;
