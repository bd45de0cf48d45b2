//! Tests of the real binary, as a person or a script runs it, on SQLite files, PostgreSQL, MariaDB or MySQL, and Redis.
//! They are one program, because linking it takes most of the build time.

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
