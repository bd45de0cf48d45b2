//! The listener over a store in memory, asked through its router.

mod access;
mod health;
mod hostile;
mod kit;
mod listener;
mod read;
mod stub;
mod table;
mod tail;
mod write;
