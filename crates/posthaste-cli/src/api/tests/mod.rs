//! The listener over a store in memory, asked through its router.

mod access;
mod change;
mod health;
mod hostile;
mod kit;
mod look;
mod serve;
mod stub;
mod table;
mod tail;
