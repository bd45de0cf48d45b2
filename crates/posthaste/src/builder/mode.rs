//! Modes of a [`Builder`](super::Builder) as types, and which settings each mode has.
//!
//! Each trait here is the bound of some setters. Its diagnostic is what the compiler prints when a setting does not
//! belong to the mode, so it names the reason and the way out.

/// Several events at a time, with a hot path and retries.
#[derive(Debug)]
pub enum Concurrent {}
/// Strict order of insertion: one worker and one attempt per event.
#[derive(Debug)]
pub enum Strict {}
/// Writes only: no engine delivers.
#[derive(Debug)]
pub enum WriterOnly {}
/// The mode is in the [`Config`](crate::Config).
#[derive(Debug)]
pub enum Configured {}

/// A mode that may deliver: it takes interceptors.
#[diagnostic::on_unimplemented(
    message = "a writer-only outbox delivers nothing, so it takes no interceptors",
    label = "not in the mode `{Self}`",
    note = "add the interceptor to the outbox or the relay that delivers"
)]
pub trait MayDeliver: sealed::Sealed {}

/// A mode that delivers: it takes the settings of the poller and the timeouts.
#[diagnostic::on_unimplemented(
    message = "this setting is for an outbox that delivers",
    label = "not in the mode `{Self}`",
    note = "a writer-only outbox delivers nothing: set it where the events are delivered",
    note = "an outbox made by `Outbox::from_config` has its settings in the `Config`: set it there"
)]
pub trait Delivers: MayDeliver {}

/// A mode that delivers several events at a time and tries again: it takes the settings of workers, retries, queues
/// and leases.
#[diagnostic::on_unimplemented(
    message = "this setting is for an outbox that delivers several events at a time",
    label = "not in the mode `{Self}`",
    note = "strict mode has one worker and one attempt per event, because more would let later events overtake it: \
            remove this setting or `strict()`",
    note = "a writer-only outbox delivers nothing: set it where the events are delivered",
    note = "an outbox made by `Outbox::from_config` has its settings in the `Config`: set it there"
)]
pub trait TakesSeveral: Delivers {}

/// The writer-only mode: it alone deletes rows by their age.
#[diagnostic::on_unimplemented(
    message = "only a writer-only outbox deletes rows by their age alone",
    label = "not in the mode `{Self}`",
    note = "an outbox that delivers would lose events that are not delivered yet: use `purge`, which deletes DONE and \
            DEAD rows"
)]
pub trait OnlyWrites: sealed::Sealed {}

impl MayDeliver for Concurrent {}
impl MayDeliver for Strict {}
impl MayDeliver for Configured {}
impl Delivers for Concurrent {}
impl Delivers for Strict {}
impl TakesSeveral for Concurrent {}
impl OnlyWrites for WriterOnly {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Concurrent {}
    impl Sealed for super::Strict {}
    impl Sealed for super::WriterOnly {}
    impl Sealed for super::Configured {}
}
