//! Tests of the router over a store in memory, and of the listener on a socket.

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
