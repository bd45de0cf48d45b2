//! Routes: which event goes to which destinations.

mod park_reason;
mod table;

use std::fmt;
use std::time::Duration;

pub use park_reason::ParkReason;
pub(crate) use table::{RouteEntry, RouteTable, RouteTarget};

use crate::config::{Config, ConfigError, Mode, Problem};
use crate::destination::Destination;
use crate::event::{AggregateType, EventType, TypedEvent};
use crate::handler::{Handler, Typed, handler_with};

/// All routes of an outbox. An event takes the route of its event type and aggregate type, else the route of its event
/// type alone, else the first pattern that matches, else the fallback. Of two routes for the same events, the one with
/// a [`tenant`](Route::tenant) comes first.
///
/// Two routes for the same events, two patterns with the same text, and two routes of the same name are mistakes that
/// building the outbox reports. Routes of different tenants are different.
///
/// ```
/// use posthaste::{BoxError, Delivery, Route, Routes, handler};
///
/// let routes = Routes::new()
///     .handle("UserCreated", async |event: Delivery| {
///         println!("welcome, {}", event.id());
///     })
///     .add(
///         Route::event("OrderPlaced")
///             .aggregate("Order")
///             .deliver_to(handler(async |_: Delivery| Ok::<(), BoxError>(())))
///             .concurrency(2),
///     );
/// # let _ = routes;
/// ```
#[must_use = "routes do nothing until an outbox is built with them"]
pub struct Routes<S = ()> {
    state: S,
    routes: Vec<Route>,
}

impl Routes {
    /// No routes yet, and no state.
    pub fn new() -> Self {
        Self { state: (), routes: Vec::new() }
    }
}

impl<S> Routes<S> {
    /// Sets the state that handlers added after this can take as [`State`](crate::State). Default: `()`.
    pub fn with_state<T>(self, state: T) -> Routes<T> {
        Routes { state, routes: self.routes }
    }

    /// Adds a route.
    #[allow(
        clippy::should_implement_trait,
        reason = "`add` is the plain word, and routes are not added with `+`"
    )]
    pub fn add(mut self, route: Route) -> Self {
        self.routes.push(route);
        self
    }

    /// Checks whether an outbox can be built from these routes and this configuration. The error lists every problem.
    ///
    /// Building an outbox checks the same. This is for a program that reads its routes from a file and reports mistakes
    /// before it opens a store.
    pub fn check(&self, config: &Config) -> Result<(), ConfigError> {
        let mut problems = config.validate().err().map_or_else(Vec::new, |error| error.problems);
        problems.extend(table::problems(&self.routes));
        if config.mode == Mode::WriterOnly && !self.routes.is_empty() {
            let advice = "writer_only delivers nothing: give it `Routes::new()`, and these routes to the outbox or \
                          the relay that delivers";
            problems.push(Problem::new("routes", advice));
        }
        ConfigError::from_problems(problems)
    }

    /// The routes must have passed [`check`](Self::check).
    pub(crate) fn into_table(self) -> RouteTable {
        RouteTable::new(self.routes)
    }
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// Handles events of this type with an async function, whatever their aggregate type. For events of one
    /// aggregate type only, use [`on`](Self::on), or [`Route::event`] with [`Route::aggregate`].
    ///
    /// The function takes a [`Delivery`](crate::Delivery). Before that argument, it may take the
    /// [`State`](crate::State) and the payload as a Rust type: see [`Handler`].
    ///
    /// # Handlers that need a pool, a client or a setting
    ///
    /// Pass it with [`with_state`](Self::with_state) and take it as [`State`](crate::State), as below. An `async`
    /// closure that uses a variable from outside does not compile: "async closure does not implement `Fn` because it
    /// captures state from its environment". The future of such a closure borrows from the closure itself, which the
    /// traits of Rust cannot express for a stored function today. A plain closure that clones what it needs and
    /// returns an `async move` block compiles; [`with_state`](Self::with_state) saves you from writing one:
    ///
    /// ```
    /// use posthaste::{Delivery, Routes};
    ///
    /// let prefix = String::from("shop");
    /// let routes = Routes::new().handle("UserCreated", move |event: Delivery| {
    ///     let prefix = prefix.clone();
    ///     async move { println!("{prefix}: {}", event.id()) }
    /// });
    /// # let _ = routes;
    /// ```
    ///
    /// # Example
    ///
    /// ```
    /// use posthaste::{Delivery, HandlerResult, Routes, State};
    ///
    /// #[derive(Clone)]
    /// struct Mailer {
    ///     from: String,
    /// }
    ///
    /// let mailer = Mailer { from: "shop@example.com".to_owned() };
    /// let routes = Routes::new().with_state(mailer).handle(
    ///     "UserCreated",
    ///     async |State(mailer): State<Mailer>, event: Delivery| {
    ///         let user: serde_json::Value = event.payload_as()?;
    ///         println!("{}: welcome, {user}", mailer.from);
    ///         HandlerResult::Ok(())
    ///     },
    /// );
    /// # let _ = routes;
    /// ```
    pub fn handle<Args: 'static>(self, event_type: impl EventType, function: impl Handler<S, Args>) -> Self {
        self.handle_route(Route::event(event_type), function)
    }

    /// Handles the events of a `#[derive(Event)]` type with an async function that takes this type. The route takes
    /// only events of the event type and the aggregate type that the derive sets.
    ///
    /// The function may take the [`State`](crate::State) first: see [`handle`](Self::handle), also for what to do
    /// instead of an `async` closure that uses a variable from outside.
    ///
    /// ```
    /// use posthaste::{Delivery, Event, Routes, State};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Serialize, Deserialize, Event)]
    /// #[event(type = "OrderPlaced", aggregate = "Order")]
    /// struct OrderPlaced {
    ///     #[event(aggregate_id)]
    ///     order: u64,
    /// }
    ///
    /// let routes = Routes::new().with_state("shop").on(
    ///     async |State(shop): State<&str>, placed: OrderPlaced, _: Delivery| {
    ///         println!("{shop}: order {}", placed.order);
    ///     },
    /// );
    /// # let _ = routes;
    /// ```
    pub fn on<T: TypedEvent, Args: 'static>(self, function: impl Handler<S, Typed<T, Args>>) -> Self {
        self.handle_route(Route::event(T::TYPE).aggregate(T::AGGREGATE), function)
    }

    fn handle_route<Args: 'static>(self, route: Route, function: impl Handler<S, Args>) -> Self {
        let handler = handler_with(self.state.clone(), function);
        self.add(route.deliver_to(handler))
    }
}

impl Default for Routes {
    fn default() -> Self {
        Self::new()
    }
}

/// Without the state, which may contain secrets.
impl<S> fmt::Debug for Routes<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.routes).finish()
    }
}

/// The name of the destination of a route that has only one.
const ONLY_TARGET_NAME: &str = "only";

/// One route: which events, to which destinations, how fast.
pub struct Route {
    name: Option<String>,
    matcher: Matcher,
    tenant: Option<Box<str>>,
    targets: Vec<RouteTarget>,
    mistakes: Vec<&'static str>,
    concurrency: Option<usize>,
    rate: Option<f64>,
    timeout: Option<Duration>,
    batch: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Matcher {
    /// Events of this type, and of any aggregate type unless one is given.
    Exact {
        aggregate_type: Option<Box<str>>,
        event_type: Box<str>,
    },
    Pattern(Box<str>),
    Fallback,
}

impl Route {
    /// Events of this type, whatever their aggregate type. [`aggregate`](Self::aggregate) restricts it to one.
    pub fn event(event_type: impl EventType) -> Self {
        Self::new(Matcher::Exact { aggregate_type: None, event_type: event_type.name().into() })
    }

    /// Events whose `aggregate_type:event_type` matches, where `*` matches any text:
    /// `"Order:*"`, `"*:*Deleted"`.
    pub fn pattern(pattern: impl Into<Box<str>>) -> Self {
        Self::new(Matcher::Pattern(pattern.into()))
    }

    /// Events that no other route matches.
    pub fn fallback() -> Self {
        Self::new(Matcher::Fallback)
    }

    /// Whether it takes events of these types, written `aggregate_type:event_type`, at least for some tenants.
    ///
    /// ```
    /// use posthaste::Route;
    ///
    /// assert!(Route::pattern("Order:*").takes("Order:OrderPlaced"));
    /// assert!(!Route::pattern("Order:*").takes("Orders:OrderPlaced"));
    /// assert!(Route::event("OrderPlaced").takes("Order:OrderPlaced"));
    /// ```
    pub fn takes(&self, types: &str) -> bool {
        match &self.matcher {
            Matcher::Exact { aggregate_type: Some(aggregate_type), event_type } => {
                types.strip_prefix(&**aggregate_type).and_then(|rest| rest.strip_prefix(':'))
                    == Some(event_type)
            }
            Matcher::Exact { aggregate_type: None, event_type } => {
                types.strip_suffix(&**event_type).is_some_and(|rest| rest.ends_with(':'))
            }
            Matcher::Pattern(pattern) => table::matches_pattern(pattern, types),
            Matcher::Fallback => true,
        }
    }

    /// Only events of this aggregate type. Events without an aggregate have [`GLOBAL`](crate::GLOBAL). Default: events
    /// of every aggregate type. For a [`pattern`](Self::pattern), write the aggregate type into the pattern.
    pub fn aggregate(mut self, aggregate: impl AggregateType) -> Self {
        match &mut self.matcher {
            Matcher::Exact { aggregate_type, .. } => *aggregate_type = Some(aggregate.name().into()),
            _ => self.mistakes.push("`aggregate` is for exact routes: write it into the pattern instead"),
        }
        self
    }

    /// Only events of tenants that match, where `*` matches any text. Events without a tenant do not match. Default:
    /// events of every tenant, and of none.
    ///
    /// ```
    /// use posthaste::{Recorder, Route, Routes};
    ///
    /// let routes = Routes::new()
    ///     .add(Route::pattern("Order:*").tenant("acme-*").deliver_to(Recorder::new()))
    ///     .add(Route::pattern("Order:*").deliver_to(Recorder::new()));
    /// # let _ = routes;
    /// ```
    pub fn tenant(mut self, pattern: impl Into<Box<str>>) -> Self {
        self.tenant = Some(pattern.into());
        self
    }

    /// Sets the destination. Several routes may share one in an `Arc`.
    pub fn deliver_to(mut self, destination: impl Destination) -> Self {
        if !self.targets.is_empty() {
            self.mistakes.push("has a destination already: name each of several with `fan_out_to`");
        }
        self.targets.push(RouteTarget::new(ONLY_TARGET_NAME, destination));
        self
    }

    /// Adds one of several destinations that all get every event of this route. The event is DONE when all have it, and
    /// a retry goes only to those that do not. The row keeps the name in `progress`: do not change it while events are
    /// pending.
    pub fn fan_out_to(mut self, name: impl Into<String>, destination: impl Destination) -> Self {
        self.targets.push(RouteTarget::new(name, destination));
        self
    }

    /// Sets the name in metrics, logs, pauses and parked rows. Default: what the route matches, such as `OrderPlaced`,
    /// `Order:OrderPlaced` or `Order:*@acme`; `fallback` for the fallback.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the most deliveries of this route at the same time, in this process. Default: the number of workers.
    pub fn concurrency(mut self, deliveries: usize) -> Self {
        self.concurrency = Some(deliveries);
        self
    }

    /// Sets the most events per second, in this process; two processes send twice as many. Default: no limit.
    pub fn rate(mut self, events_per_second: f64) -> Self {
        self.rate = Some(events_per_second);
        self
    }

    /// Sets how long one delivery may take. Default: the configuration's `handler_timeout` or `publish_timeout`.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the most events per delivery. Default: the batch size of the destination. Handlers take one event at a
    /// time.
    pub fn batch(mut self, events: usize) -> Self {
        self.batch = Some(events);
        self
    }

    fn new(matcher: Matcher) -> Self {
        Self {
            name: None,
            matcher,
            tenant: None,
            targets: Vec::new(),
            mistakes: Vec::new(),
            concurrency: None,
            rate: None,
            timeout: None,
            batch: None,
        }
    }

    /// The name, or the default name.
    fn full_name(&self) -> String {
        if let Some(name) = &self.name {
            return name.clone();
        }
        let events = match &self.matcher {
            Matcher::Exact { aggregate_type: None, event_type } => escaped(event_type),
            Matcher::Exact { aggregate_type: Some(aggregate_type), event_type } => {
                format!("{}:{}", escaped(aggregate_type), escaped(event_type))
            }
            Matcher::Pattern(pattern) => pattern.to_string(),
            Matcher::Fallback => "fallback".to_owned(),
        };
        match &self.tenant {
            Some(tenant) => format!("{events}@{tenant}"),
            None => events,
        }
    }
}

/// Escapes a part of a name, so that two different pairs of parts never make the same name.
fn escaped(part: &str) -> String {
    let mut text = String::with_capacity(part.len());
    for c in part.chars() {
        if matches!(c, '\\' | ':' | '@') {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route")
            .field("name", &self.full_name())
            .field("matcher", &self.matcher)
            .finish_non_exhaustive()
    }
}
