//! The Redis store on real servers. One program for all of them: linking it is most of the work.

mod conformance;
mod counted;
mod crash;
mod diagnose;
mod expiry;
mod failover;
mod far;
mod large;
mod places;
mod shards;
mod silent_shard;
mod support;
mod trouble;
mod writer;
