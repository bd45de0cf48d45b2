//! Cancel safety: work that runs to completion when its caller drops it.

use std::pin::Pin;
use std::task::{Context, Poll};

/// Runs work that must not stop half way, such as BEGIN, to its end.
///
/// If the caller is dropped before the reply to a BEGIN has arrived, the transaction would stay open in the pool: the
/// driver counts a transaction only after the reply. The next user of the connection would then write into a
/// transaction that is never committed. So a background task finishes the work, and dropping its result rolls the
/// transaction back.
pub(crate) async fn run_to_completion<F: Future + Send + 'static>(work: F) -> F::Output
where
    F::Output: Send,
{
    RunToCompletion(Some(Box::pin(work))).await
}

/// A future that continues in a background task when its caller drops it.
struct RunToCompletion<F: Future + Send + 'static>(Option<Pin<Box<F>>>)
where
    F::Output: Send;

impl<F: Future + Send + 'static> Future for RunToCompletion<F>
where
    F::Output: Send,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Some(future) = &mut self.0 else { return Poll::Pending };
        let result = future.as_mut().poll(context);
        if result.is_ready() {
            self.0 = None;
        }
        result
    }
}

impl<F: Future + Send + 'static> Drop for RunToCompletion<F>
where
    F::Output: Send,
{
    fn drop(&mut self) {
        if let (Some(future), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(future);
        }
    }
}
