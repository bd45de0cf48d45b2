//! Locks that survive a panic: what they guard is never left half changed.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after somebody panicked with the lock in hand.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
