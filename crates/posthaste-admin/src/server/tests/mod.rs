//! The listener over a store in memory, asked through its router.

mod access;
mod change_handlers;
mod endpoints;
mod failing_store;
mod health;
mod hostile;
mod listener;
mod read_handlers;
mod support;
mod tail_handler;
