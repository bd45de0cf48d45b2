//! Posthaste: a transactional outbox.
