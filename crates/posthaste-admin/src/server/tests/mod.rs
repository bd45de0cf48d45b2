//! The listener over a store in memory, asked through its router.

mod access;
mod health;
mod hostile;
mod support;
mod listener;
mod read;
mod failing_store;
mod table;
mod tail;
mod write;
