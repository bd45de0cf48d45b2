//! Async functions as destinations.

use std::fmt;
use std::marker::PhantomData;

use async_trait::async_trait;

use crate::destination::{Delivery, Destination, IntoOutcome, Outcome, Profile};
use crate::error::error_text;
use crate::event::TypedEvent;

/// An async function of one event, lifted to a [`Destination`].
///
/// ```
/// use posthaste::{Delivery, handler};
///
/// let greet = handler(async |event: Delivery| {
///     println!("hello, {}", event.id());
/// });
/// # let _ = greet;
/// ```
pub fn handler<F, Fut>(function: F) -> impl Destination
where
    F: Fn(Delivery) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoOutcome> + Send + 'static,
{
    Handler(function)
}

/// An async function of one typed event, lifted to a [`Destination`]. A payload that is not such
/// a value makes the event DEAD: it would never become one.
pub fn typed_handler<T, F, Fut>(function: F) -> impl Destination
where
    T: TypedEvent,
    F: Fn(T, Delivery) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoOutcome> + Send + 'static,
{
    TypedHandler { function, event: PhantomData::<fn() -> T> }
}

struct Handler<F>(F);

#[async_trait]
impl<F, Fut> Destination for Handler<F>
where
    F: Fn(Delivery) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoOutcome> + Send + 'static,
{
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(batch.len());
        for delivery in batch {
            outcomes.push((self.0)(delivery.clone()).await.into_outcome());
        }
        outcomes
    }

    fn profile(&self) -> Profile {
        Profile::HANDLER
    }
}

struct TypedHandler<T, F> {
    function: F,
    event: PhantomData<fn() -> T>,
}

#[async_trait]
impl<T, F, Fut> Destination for TypedHandler<T, F>
where
    T: TypedEvent,
    F: Fn(T, Delivery) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoOutcome> + Send + 'static,
{
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(batch.len());
        for delivery in batch {
            outcomes.push(match delivery.payload_as::<T>() {
                Ok(value) => (self.function)(value, delivery.clone()).await.into_outcome(),
                Err(error) => Outcome::Dead(error_text(&error)),
            });
        }
        outcomes
    }

    fn profile(&self) -> Profile {
        Profile::HANDLER
    }
}

impl<F> fmt::Debug for Handler<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handler")
    }
}

impl<T, F> fmt::Debug for TypedHandler<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TypedHandler")
    }
}
