//! Parts that several commands share. None of them is a command.

pub(super) mod batch_rate;
pub(super) mod bulk_change;
pub(super) mod findings;
pub(super) mod pages;
