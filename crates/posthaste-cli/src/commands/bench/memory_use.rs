//! How much memory this process has, where the system says it.

/// Now.
pub(super) fn now() -> Option<u64> {
    read("VmRSS:")
}

/// The most it ever had.
pub(super) fn peak() -> Option<u64> {
    read("VmHWM:")
}

fn read(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn memory_is_known_on_linux() {
        assert!(now().is_some_and(|bytes| bytes > 1 << 20));
        assert!(peak() >= now());
    }
}
