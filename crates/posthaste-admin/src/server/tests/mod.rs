//! The listener over a store in memory, asked through its router.

mod access;
mod failing_store;
mod health;
mod hostile;
mod listener;
mod read;
mod support;
mod table;
mod tail;
mod write;
