//! Which event goes where.

mod table;

use std::fmt;
use std::time::Duration;

pub use table::matches_pattern;
pub(crate) use table::{RouteEntry, RouteTable, RouteTarget};

use crate::config::{Config, ConfigError};
use crate::destination::{Delivery, Destination, IntoOutcome};
use crate::event::{AggregateType, EventType, GLOBAL, TypedEvent};
use crate::handler::{handler, typed_handler};

/// All routes of an outbox. An event takes the exact route of its aggregate type and event type,
/// else the first pattern that matches, else the fallback. A route with a [`tenant`](Route::tenant)
/// is asked before one of the same pair, or a fallback, that has none.
///
/// Two routes for the same pair, two patterns with the same text and two routes of the same name
/// are mistakes, reported when the outbox is built; routes of different tenants are different.
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
#[derive(Debug, Default)]
#[must_use = "routes do nothing until an outbox is built with them"]
pub struct Routes {
    routes: Vec<Route>,
}

impl Routes {
    /// No routes yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a route.
    #[allow(
        clippy::should_implement_trait,
        reason = "`add` is the plain word, and nobody adds routes with `+`"
    )]
    pub fn add(mut self, route: Route) -> Self {
        self.routes.push(route);
        self
    }

    /// Handles events of this type whose aggregate type is [`GLOBAL`] by an async function. For
    /// events of an aggregate use [`on`](Self::on), or [`Route::event`] with [`Route::aggregate`].
    ///
    /// A handler that needs something of its own clones it for every event:
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use posthaste::{Delivery, HandlerResult, Routes};
    ///
    /// let count = Arc::new(AtomicU64::new(0));
    /// let routes = Routes::new().handle("UserCreated", move |event: Delivery| {
    ///     let count = Arc::clone(&count);
    ///     async move {
    ///         let user: serde_json::Value = event.payload_as()?;
    ///         count.fetch_add(1, Ordering::Relaxed);
    ///         println!("welcome, {user}");
    ///         HandlerResult::Ok(())
    ///     }
    /// });
    /// # let _ = routes;
    /// ```
    pub fn handle<F, Fut>(self, event_type: impl EventType, function: F) -> Self
    where
        F: Fn(Delivery) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoOutcome> + Send + 'static,
    {
        self.add(Route::event(event_type).deliver_to(handler(function)))
    }

    /// Handles the events of a type with `#[derive(Event)]` by an async function of that type,
    /// which also binds the route to its event type and aggregate type.
    pub fn on<T, F, Fut>(self, function: F) -> Self
    where
        T: TypedEvent,
        F: Fn(T, Delivery) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoOutcome> + Send + 'static,
    {
        let route = Route::event(T::TYPE).aggregate(T::AGGREGATE);
        self.add(route.deliver_to(typed_handler(function)))
    }

    /// Whether an outbox can be built of these routes and this configuration; reports every problem at once.
    ///
    /// Building an outbox checks the same. This is for a program that reads its routes from a file and wants
    /// to report mistakes before it opens a store.
    pub fn check(&self, config: &Config) -> Result<(), ConfigError> {
        let mut problems = config.validate().err().map_or_else(Vec::new, |error| error.problems);
        problems.extend(table::problems(&self.routes));
        ConfigError::from_problems(problems)
    }

    /// The routes must have passed [`check`](Self::check).
    pub(crate) fn into_table(self) -> RouteTable {
        RouteTable::new(self.routes)
    }
}

/// What a row without a route is parked for. No route may have this name.
pub const NO_ROUTE: &str = "no route";

/// What a row is parked for that may be what kills its owners, until it can be delivered with nothing
/// else beside it. No route may have this name.
pub const SUSPECTS: &str = "suspects";

const PROBED_SUFFIX: &str = " (probed)";

/// What events are parked for that were probes of this route in vain. They are not with the others, of
/// which they would be the oldest, and so the next probe again.
pub fn probed(route: &str) -> String {
    format!("{route}{PROBED_SUFFIX}")
}

/// The route that events are parked for under this name, which is [`probed`] for some of them.
pub fn parked_for(parked: &str) -> &str {
    parked.strip_suffix(PROBED_SUFFIX).unwrap_or(parked)
}

/// The name of a destination that is the only one of its route.
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
    Exact { aggregate_type: Box<str>, event_type: Box<str> },
    Pattern(Box<str>),
    Fallback,
}

impl Route {
    /// Events of this type; their aggregate type is [`GLOBAL`] unless [`aggregate`](Self::aggregate) is set.
    pub fn event(event_type: impl EventType) -> Self {
        Self::new(Matcher::Exact { aggregate_type: GLOBAL.into(), event_type: event_type.name().into() })
    }

    /// Events whose `aggregate_type:event_type` matches, where `*` stands for any text:
    /// `"Order:*"`, `"*:*Deleted"`.
    pub fn pattern(pattern: impl Into<Box<str>>) -> Self {
        Self::new(Matcher::Pattern(pattern.into()))
    }

    /// Events that no other route takes.
    pub fn fallback() -> Self {
        Self::new(Matcher::Fallback)
    }

    /// The aggregate type of an exact route.
    pub fn aggregate(mut self, aggregate: impl AggregateType) -> Self {
        match &mut self.matcher {
            Matcher::Exact { aggregate_type, .. } => *aggregate_type = aggregate.name().into(),
            _ => self.mistakes.push("`aggregate` is for exact routes: write it into the pattern instead"),
        }
        self
    }

    /// Only events of tenants that match, where `*` stands for any text; events without a tenant do
    /// not. Default: events of every tenant, and of none.
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

    /// Where its events go. Several routes may share a destination in an `Arc`.
    pub fn deliver_to(mut self, destination: impl Destination) -> Self {
        if !self.targets.is_empty() {
            self.mistakes.push("has a destination already: name each of several with `fan_out_to`");
        }
        self.targets.push(RouteTarget::new(ONLY_TARGET_NAME, destination));
        self
    }

    /// One of several destinations that all get every event of this route. The event is DONE when
    /// all have it, and a retry goes only to those that do not. The name is kept in the row's
    /// `progress`: do not change it while events are pending.
    pub fn fan_out_to(mut self, name: impl Into<String>, destination: impl Destination) -> Self {
        self.targets.push(RouteTarget::new(name, destination));
        self
    }

    /// The route's name in metrics, logs, pauses and parked rows. Default: what it matches, such
    /// as `Order:OrderPlaced` or `Order:*@acme`; `fallback` for the fallback.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// At most so many deliveries of this route at once, in this process. Default: as many as there are workers.
    pub fn concurrency(mut self, deliveries: usize) -> Self {
        self.concurrency = Some(deliveries);
        self
    }

    /// At most so many events per second, in this process: two of them send twice as many. Default: no limit.
    pub fn rate(mut self, events_per_second: f64) -> Self {
        self.rate = Some(events_per_second);
        self
    }

    /// How long one delivery may take. Default: the configuration's `handler_timeout` or `publish_timeout`.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// At most so many events per delivery. Default: what the destination likes. Handlers take one
    /// event at a time.
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

    /// The name it is known by.
    fn full_name(&self) -> String {
        if let Some(name) = &self.name {
            return name.clone();
        }
        let events = match &self.matcher {
            Matcher::Exact { aggregate_type, event_type } => {
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

/// A part of a name, so that two parts together cannot be taken for two others.
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
