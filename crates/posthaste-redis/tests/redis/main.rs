//! The Redis store on real servers. All tests are in one program, because linking takes longest.

mod conformance;
mod counters;
mod crash;
mod diagnose;
mod errors;
mod failover;
mod large;
mod sequence;
mod shards;
mod silent_shard;
mod slow_link;
mod support;
mod tickets;
mod writer;
