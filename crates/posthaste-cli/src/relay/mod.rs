//! The relay: delivers what services of any language wrote into their outboxes.
//!
//! - `run` starts everything, waits for signals and stops everything.
//! - `outbox` is one outbox: its store is opened, its engine runs, is replaced, stops.
//! - `reload` says whether a running relay can take over another configuration.
//! - `destinations` builds publishers, and keeps those that two configurations share.
//! - `served` is one outbox as the admin listener sees it; `tail` tells those who follow what is delivered.
//! - `signals` and `measure` are the process's: what it is told, and what it tells.

mod destinations;
mod measure;
mod outbox;
mod reload;
mod run;
pub(crate) mod served;
mod signals;
pub(crate) mod tail;

pub(crate) use run::{Options, run};
