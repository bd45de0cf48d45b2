//! The outbox as a service and an operator meet it, on a store in memory. One program for all of it: linking it is
//! most of the work.

mod acceptance;
mod breaker;
mod busy_destinations;
mod compile_errors;
mod config;
mod delivery_outcomes;
mod derive_macro;
mod event;
mod event_delay;
mod faults;
mod handlers;
mod hot_path;
mod large_events;
mod leases;
mod logging;
mod memory_conformance;
mod memory_engine;
mod memory_tx;
mod memory_writer_conformance;
mod metrics;
mod multi_thread;
mod nodes;
mod partial_outage;
mod properties;
mod races;
mod retry_delays;
mod routes;
mod strict;
mod support;
mod suspects;
mod trace;
mod writer_only;
