//! `faketime`, which is no server: tests run nodes under it whose clocks are wrong.

use super::{Service, process};

const PROGRAM: &str = "faketime";

pub(super) const SERVICE: Service = Service { missing_packages, start: |_| Ok(()) };

fn missing_packages() -> &'static [&'static str] {
    if process::find(PROGRAM).is_none() { &[PROGRAM] } else { &[] }
}
