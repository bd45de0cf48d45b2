//! The queue of test programs between the build and the runner.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};

use super::program::Program;

/// Programs that are built and have not started: the channel from the build, and those already taken out of it.
#[derive(Debug)]
pub(super) struct Queue(Mutex<(Receiver<Program>, Vec<Program>)>);

impl Queue {
    /// Returns the sender for the build, and the queue. The queue ends when the sender is dropped.
    pub(super) fn new() -> (Sender<Program>, Self) {
        let (sender, receiver) = mpsc::channel();
        (sender, Self(Mutex::new((receiver, Vec::new()))))
    }

    /// Takes the slowest program of the queue. Waits for one if the queue is empty; `None` once the build has ended.
    pub(super) fn next(&self) -> Option<Program> {
        // Held while waiting for a program: another thread that wants the lock has to wait for one too.
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
    fn slowest_program_comes_first_and_the_others_in_build_order() {
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
    fn program_can_be_taken_before_the_build_has_ended() {
        let (built, queue) = Queue::new();
        built.send(Program::of("early".into(), ".".into())).unwrap();
        assert!(queue.next().is_some());
        let waiting = std::thread::spawn(move || queue.next());
        built.send(Program::of("late".into(), ".".into())).unwrap();
        assert!(waiting.join().unwrap().is_some());
    }
}
