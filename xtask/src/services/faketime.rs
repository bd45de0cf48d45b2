//! `faketime`, which is no server: tests run nodes under it whose clocks are wrong.

use super::{Service, process};

const PROGRAM: &str = "faketime";

pub(super) const SERVICE: Service = Service { missing_package, start: |_| Ok(()) };

fn missing_package() -> Option<&'static str> {
    process::find(PROGRAM).is_none().then_some(PROGRAM)
}
