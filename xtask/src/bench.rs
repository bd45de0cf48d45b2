//! `cargo xtask bench`: builds a benchmark in release mode and runs it with the given arguments.

use crate::cargo::Cargo;

/// The name of each benchmark and the cargo arguments that run it.
const BENCHES: &[(&str, &str)] = &[
    ("engine", "run --locked --release -p posthaste-bench --example engine"),
    ("writers", "run --locked --release -p posthaste-bench --example writers"),
    ("peers", "run --locked --release --manifest-path bench/peers/Cargo.toml"),
];

pub(crate) fn run(name: &str, args: &[&str]) -> bool {
    let Some((_, command)) = BENCHES.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = BENCHES.iter().map(|(known, _)| *known).collect();
        eprintln!("No benchmark is called {name}. Choose one of: {}.", known.join(", "));
        return false;
    };
    Cargo::new(command).arg("--").args(args).run()
}
