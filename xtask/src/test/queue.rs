//! Test programs on their way from the build to those who run them.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};

use super::program::Program;

/// What has been built and has not run yet.
#[derive(Debug)]
pub(super) struct Queue(Mutex<(Receiver<Program>, Vec<Program>)>);

impl Queue {
    /// The sender of what is built, and the queue, which ends when the sender is dropped.
    pub(super) fn new() -> (Sender<Program>, Self) {
        let (sender, receiver) = mpsc::channel();
        (sender, Self(Mutex::new((receiver, Vec::new()))))
    }

    /// The slowest program of those that are there. Waits for one; `None` once there will be none.
    pub(super) fn next(&self) -> Option<Program> {
        // Whoever waits for the lock would wait for a program as well.
        let mut locked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (receiver, waiting) = &mut *locked;
        if waiting.is_empty() {
            waiting.push(receiver.recv().ok()?);
        }
        waiting.extend(receiver.try_iter());
        let (index, _) = waiting.iter().enumerate().min_by_key(|(_, program)| program.rank())?;
        Some(waiting.remove(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slowest_program_comes_first_and_the_others_as_they_were_built() {
        let (built, queue) = Queue::new();
        let program = |name: &str| Program::of(name.into(), ".".into());
        for name in ["mounted", "writers", "examples", "cli"] {
            built.send(program(name)).unwrap();
        }
        drop(built);
        let order: Vec<Program> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(order, ["cli", "writers", "mounted", "examples"].map(program));
    }

    #[test]
    fn program_is_there_before_the_build_has_ended() {
        let (built, queue) = Queue::new();
        built.send(Program::of("early".into(), ".".into())).unwrap();
        assert!(queue.next().is_some());
        let waiting = std::thread::spawn(move || queue.next());
        built.send(Program::of("late".into(), ".".into())).unwrap();
        assert!(waiting.join().unwrap().is_some());
    }
}
