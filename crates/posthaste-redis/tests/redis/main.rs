//! The Redis store on real servers. One program for all of them: linking it is most of the work.

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
