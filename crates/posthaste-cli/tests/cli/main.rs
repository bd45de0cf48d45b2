//! The command line as a person or a script drives it: the real binary on real SQLite files, on a real
//! PostgreSQL, and on a real MariaDB or MySQL.

mod change;
mod kit;
mod look;
mod migrate;
mod mysql;
mod mysql_kit;
mod mysql_server;
mod mysql_trouble;
mod postgres;
mod postgres_kit;
mod postgres_trouble;
mod servers;
mod terminal;
mod trouble;
mod usage;
