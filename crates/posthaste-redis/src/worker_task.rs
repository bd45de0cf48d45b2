//! The task of a worker, which ends when it is told to or when its handle is dropped.

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The handle of a worker's task. Dropped, the task is told to end.
#[derive(Debug)]
pub(crate) struct WorkerTask {
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl WorkerTask {
    /// Starts what `work` makes; it has to end soon after the token it is given was cancelled.
    pub(crate) fn start<F>(work: impl FnOnce(CancellationToken) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let task = tokio::spawn(work(stop.clone()));
        Self { stop, task: Some(task) }
    }

    /// Tells the task to end, and waits until it has. Twice is harmless.
    pub(crate) async fn shutdown(&mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            // It only ends; it cannot fail.
            let _ = task.await;
        }
    }
}

impl Drop for WorkerTask {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
