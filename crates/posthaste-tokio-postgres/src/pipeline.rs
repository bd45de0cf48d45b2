//! Pipelining of two requests in one round trip.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use futures_util::future::{join, maybe_done};

/// Sends both requests in order, and waits for both results.
///
/// The driver sends a request when its future is polled for the first time. From then on both futures must be polled,
/// because the result of the second request arrives after that of the first.
pub(crate) async fn pipelined<A, B>(
    first: impl Future<Output = A>,
    second: impl Future<Output = B>,
) -> (A, B) {
    let mut first = pin!(maybe_done(first));
    poll_fn(|context| {
        let _ = first.as_mut().poll(context);
        Poll::Ready(())
    })
    .await;
    let ((), second) = join(first.as_mut(), second).await;
    (first.take_output().expect("`join` has completed it"), second)
}
