//! The Redis store on real servers. One program for all of them: linking it is most of the work.

mod conformance;
mod counted;
mod crash;
mod diagnose;
mod expiry;
mod failover;
mod far;
#[allow(unreachable_pub, reason = "also a module of tests that are crates of their own")]
mod forwarder;
mod large;
mod places;
mod server;
mod shards;
#[allow(unreachable_pub, reason = "also a module of tests that are crates of their own")]
#[path = "../../../posthaste-sqlx/tests/postgres/support/silence.rs"]
mod silence;
mod silent_shard;
#[path = "../../../posthaste-cli/tests/cli/relay/slow_line.rs"]
mod slow_line;
mod support;
mod trouble;
mod writer;
