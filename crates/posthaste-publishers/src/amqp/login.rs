//! The user and the password of a broker, and of its management plugin where that has none of its own.

#[derive(Clone)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: String,
}
