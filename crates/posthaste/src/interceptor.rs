//! Interceptors: code around every delivery, for audit, logging and metrics.

use std::sync::Arc;

use crate::destination::{Delivery, Outcome};
use crate::error::BoxError;

/// Code around every delivery: `before` of every interceptor in the order of registration, the destination, then
/// `after` in reverse order.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an interceptor",
    note = "make one from a function with `interceptor::before(|delivery: &Delivery| Ok(()))` or \
            `interceptor::after(|delivery: &Delivery, outcome: &Outcome| …)`, or implement `Interceptor`"
)]
pub trait Interceptor: Send + Sync + 'static {
    /// Called before the destination. An error or a panic is a failed attempt, and the destination is not called.
    fn before(&self, delivery: &Delivery) -> Result<(), BoxError> {
        let _ = delivery;
        Ok(())
    }

    /// Called with the outcome. A panic is logged and ignored.
    fn after(&self, delivery: &Delivery, outcome: &Outcome) {
        let _ = (delivery, outcome);
    }
}

/// A shared interceptor.
impl<I: Interceptor + ?Sized> Interceptor for Arc<I> {
    fn before(&self, delivery: &Delivery) -> Result<(), BoxError> {
        (**self).before(delivery)
    }

    fn after(&self, delivery: &Delivery, outcome: &Outcome) {
        (**self).after(delivery, outcome);
    }
}

/// Makes an interceptor from a function that runs before the destination is called.
///
/// ```
/// use posthaste::{Delivery, interceptor};
///
/// let audit = interceptor::before(|delivery: &Delivery| {
///     println!("attempt {} of {}", delivery.attempt, delivery.id());
///     Ok(())
/// });
/// # let _ = audit;
/// ```
pub fn before(
    function: impl Fn(&Delivery) -> Result<(), BoxError> + Send + Sync + 'static,
) -> impl Interceptor {
    Before(function)
}

/// Makes an interceptor from a function that runs after the destination was called.
pub fn after(function: impl Fn(&Delivery, &Outcome) + Send + Sync + 'static) -> impl Interceptor {
    After(function)
}

struct Before<F>(F);

impl<F: Fn(&Delivery) -> Result<(), BoxError> + Send + Sync + 'static> Interceptor for Before<F> {
    fn before(&self, delivery: &Delivery) -> Result<(), BoxError> {
        (self.0)(delivery)
    }
}

struct After<F>(F);

impl<F: Fn(&Delivery, &Outcome) + Send + Sync + 'static> Interceptor for After<F> {
    fn after(&self, delivery: &Delivery, outcome: &Outcome) {
        (self.0)(delivery, outcome);
    }
}
