//! A lock that survives a panic: the guarded state is never left half changed.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks the mutex, even if a thread panicked while it held the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
