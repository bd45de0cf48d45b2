//! `#[derive(Event)]` for Posthaste.
