//! Resource usage of a process; `None` if the system does not report it.

use std::time::Instant;

use crate::process_memory;

/// Unit of process times in `/proc` on Linux, independent of the kernel's own tick rate.
const TICKS_PER_SECOND: f64 = 100.0;

/// Resident memory, and CPU usage as a percentage of one processor.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessUsage {
    pub(super) memory_bytes: Option<u64>,
    pub(super) cpu_percent: Option<f64>,
}

/// Counters of a process at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessReading {
    at: Instant,
    ticks: Option<u64>,
    memory_bytes: Option<u64>,
}

impl ProcessReading {
    pub(super) fn of(process: u32) -> Self {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok();
        let ticks = stat.and_then(|stat| ticks(&stat));
        Self { at: Instant::now(), ticks, memory_bytes: process_memory::of(process) }
    }
}

/// Usage between two readings. The memory is that of the second.
pub(super) fn between(before: ProcessReading, after: ProcessReading) -> ProcessUsage {
    let seconds = after.at.duration_since(before.at).as_secs_f64();
    let ticks = before.ticks.zip(after.ticks).map(|(before, after)| after.saturating_sub(before));
    let cpu_percent = ticks.map(|ticks| ticks as f64 / TICKS_PER_SECOND / seconds * 100.0);
    ProcessUsage { memory_bytes: after.memory_bytes, cpu_percent }
}

/// Ticks in user mode and in the kernel. The name of the program is in parentheses and may contain any character.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let (user, kernel): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + kernel)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn time_is_read_behind_any_name() {
        let stat = "42 (post) haste 9) S 1 42 42 0 -1 4194560 900 0 1 0 30 12 0 0 20 0 5 0 100 200 300";
        assert_eq!(ticks(stat), Some(42));
        assert_eq!(ticks("42 (posthaste) S 1"), None);
    }

    #[test]
    fn share_is_that_of_one_processor() {
        let before = ProcessReading { at: Instant::now(), ticks: Some(100), memory_bytes: Some(1) };
        let after = ProcessReading {
            at: before.at + Duration::from_secs(10),
            ticks: Some(150),
            memory_bytes: Some(2),
        };
        let usage = between(before, after);
        assert_eq!((usage.cpu_percent, usage.memory_bytes), (Some(5.0), Some(2)));
        assert_eq!(between(ProcessReading { ticks: None, ..before }, after).cpu_percent, None);
    }
}
