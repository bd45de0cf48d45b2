//! User and password for the broker, and for the management plugin unless its URL has its own.

#[derive(Clone)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: String,
}
