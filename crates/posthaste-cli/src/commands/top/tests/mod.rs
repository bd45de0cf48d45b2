//! The screen and the keys, without a terminal and without a source.

mod keys;
mod kit;
mod panic;
mod rows;
mod views;
