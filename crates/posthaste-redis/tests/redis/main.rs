//! The Redis store on real servers. One program for all of them: linking it is most of the work.

mod conformance;
mod counters;
mod crash;
mod diagnose;
mod expiry;
mod failover;
mod slow_link;
mod large;
mod sequence;
mod shards;
mod silent_shard;
mod support;
mod errors;
mod writer;
