//! Memory of a process; `None` if the system does not report it.

/// Resident memory of this process.
pub(super) fn now() -> Option<u64> {
    read("self", "VmRSS:")
}

/// Resident memory of another process.
pub(super) fn of(process: u32) -> Option<u64> {
    read(&process.to_string(), "VmRSS:")
}

/// Peak resident memory of this process.
pub(super) fn peak() -> Option<u64> {
    read("self", "VmHWM:")
}

fn read(process: &str, name: &str) -> Option<u64> {
    field(&std::fs::read_to_string(format!("/proc/{process}/status")).ok()?, name)
}

fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_is_read_in_bytes() {
        let status = "Name:\tposthaste\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(field(status, "VmHWM:"), Some(2 << 20));
        assert_eq!(field(status, "VmRSS:"), Some(1 << 20));
        assert_eq!(field(status, "VmSwap:"), None);
    }

    // The two values are not compared, because other tests allocate between the readings.
    #[test]
    #[cfg(target_os = "linux")]
    fn memory_is_known_on_linux() {
        assert!(now().is_some_and(|bytes| bytes > 1 << 20));
        assert!(peak().is_some_and(|bytes| bytes > 1 << 20));
    }
}
