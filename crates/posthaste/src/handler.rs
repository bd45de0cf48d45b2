//! Handlers: async functions as destinations.

use std::fmt;
use std::marker::PhantomData;

use async_trait::async_trait;

use crate::destination::{Delivery, Destination, IntoOutcome, Outcome, Profile};
use crate::error::error_text;
use crate::event::TypedEvent;

/// An async function that handles one event at a time. Its last argument is the [`Delivery`]. Before that, it may take
/// the [`State`] of its routes and the payload as a [`TypedEvent`]:
///
/// - `async |event: Delivery| …`
/// - `async |State(pool): State<PgPool>, event: Delivery| …`
/// - `async |order: OrderPlaced, event: Delivery| …`
/// - `async |State(pool): State<PgPool>, order: OrderPlaced, event: Delivery| …`
///
/// It returns a type that implements [`IntoOutcome`]. An event whose payload is not a value of the type is DEAD,
/// because another attempt would fail in the same way. `Args` distinguishes the four forms and is inferred.
#[diagnostic::on_unimplemented(
    message = "this is not a handler for routes with the state `{S}`",
    label = "expected an async function that takes a `Delivery` and returns `()`, an `Outcome` or a `Result`",
    note = "write `async |event: Delivery| …` or `async |State(state): State<{S}>, event: Delivery| …`, with the \
            types of all arguments; `Routes::with_state` comes before `handle` and `on`",
    note = "before the `Delivery`, and after a `State`, it may take the payload as a type with \
            `#[derive(Serialize, Deserialize, posthaste::Event)]`",
    note = "an async closure must not use variables from outside: pass them with `Routes::with_state` or \
            `handler_with` and take them as `State`",
    note = "its future must be `Send`: drop a `MutexGuard` or an `Rc` before each `.await`"
)]
pub trait Handler<S, Args>: Send + Sync + 'static {
    /// Handles one event.
    fn handle(&self, state: &S, delivery: Delivery) -> impl Future<Output = Outcome> + Send;
}

/// State that the handlers of some routes share, such as a connection pool. Each call gets a clone.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use posthaste::{Delivery, HandlerResult, Routes, State};
///
/// #[derive(Clone, Default)]
/// struct App {
///     users: Arc<AtomicU64>,
/// }
///
/// async fn count(State(app): State<App>, event: Delivery) -> HandlerResult {
///     let user: serde_json::Value = event.payload_as()?;
///     println!("welcome, {user}, number {}", app.users.fetch_add(1, Ordering::Relaxed));
///     Ok(())
/// }
///
/// let routes = Routes::new()
///     .with_state(App::default())
///     .handle("UserCreated", count)
///     .handle("UserDeleted", async |State(app): State<App>, _: Delivery| {
///         app.users.fetch_sub(1, Ordering::Relaxed);
///     });
/// # let _ = routes;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State<S>(pub S);

/// A [`Handler`] as a [`Destination`].
///
/// ```
/// use posthaste::{Delivery, handler};
///
/// let greet = handler(async |event: Delivery| {
///     println!("hello, {}", event.id());
/// });
/// # let _ = greet;
/// ```
pub fn handler<Args: 'static>(function: impl Handler<(), Args>) -> impl Destination {
    handler_with((), function)
}

/// A [`Handler`] with the [`State`] that it takes, as a [`Destination`].
///
/// ```
/// use posthaste::{Delivery, State, handler_with};
///
/// let greet = handler_with("hello", async |State(word): State<&str>, event: Delivery| {
///     println!("{word}, {}", event.id());
/// });
/// # let _ = greet;
/// ```
pub fn handler_with<S, Args>(state: S, function: impl Handler<S, Args>) -> impl Destination
where
    S: Send + Sync + 'static,
    Args: 'static,
{
    HandlerWithState { state, function, args: PhantomData }
}

struct HandlerWithState<S, H, Args> {
    state: S,
    function: H,
    args: PhantomData<fn(Args)>,
}

#[async_trait]
impl<S, H, Args> Destination for HandlerWithState<S, H, Args>
where
    S: Send + Sync + 'static,
    H: Handler<S, Args>,
    Args: 'static,
{
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(batch.len());
        for delivery in batch {
            outcomes.push(self.function.handle(&self.state, delivery.clone()).await);
        }
        outcomes
    }

    fn profile(&self) -> Profile {
        Profile::HANDLER
    }
}

impl<S, H, Args> fmt::Debug for HandlerWithState<S, H, Args> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handler")
    }
}

impl<S, F, Fut> Handler<S, (Delivery,)> for F
where
    S: Sync,
    F: Fn(Delivery) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoOutcome> + Send,
{
    async fn handle(&self, _: &S, delivery: Delivery) -> Outcome {
        self(delivery).await.into_outcome()
    }
}

impl<S, F, Fut> Handler<S, (State<S>, Delivery)> for F
where
    S: Clone + Sync,
    F: Fn(State<S>, Delivery) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoOutcome> + Send,
{
    async fn handle(&self, state: &S, delivery: Delivery) -> Outcome {
        self(State(state.clone()), delivery).await.into_outcome()
    }
}

/// Arguments of a handler that takes the payload as a `T`.
#[derive(Debug)]
pub struct Typed<T, Args>(PhantomData<fn(T, Args)>);

impl<S, T, F, Fut> Handler<S, Typed<T, (T, Delivery)>> for F
where
    S: Sync,
    T: TypedEvent,
    F: Fn(T, Delivery) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoOutcome> + Send,
{
    async fn handle(&self, _: &S, delivery: Delivery) -> Outcome {
        handle_typed(delivery, self).await
    }
}

impl<S, T, F, Fut> Handler<S, Typed<T, (State<S>, T, Delivery)>> for F
where
    S: Clone + Sync,
    T: TypedEvent,
    F: Fn(State<S>, T, Delivery) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoOutcome> + Send,
{
    async fn handle(&self, state: &S, delivery: Delivery) -> Outcome {
        handle_typed(delivery, |value, delivery| self(State(state.clone()), value, delivery)).await
    }
}

/// Decodes the payload. If that fails, the event is DEAD, because another attempt would fail in the same way.
async fn handle_typed<T: TypedEvent, Fut: Future<Output: IntoOutcome>>(
    delivery: Delivery,
    handle: impl FnOnce(T, Delivery) -> Fut,
) -> Outcome {
    match delivery.payload_as() {
        Ok(value) => handle(value, delivery).await.into_outcome(),
        Err(error) => Outcome::Dead(error_text(&error)),
    }
}
