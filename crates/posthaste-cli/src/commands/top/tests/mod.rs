//! Tests of the screen and the keys, without a terminal and without a source.

mod keys;

mod panic;
mod rows;
mod support;
mod views;
