//! The files in `deploy/` and the pages about them: what they name exists, and the binary accepts it.

mod files;
mod metrics;

use std::path::PathBuf;
use std::process::Output;

use yaml_rust2::{Yaml, YamlLoader};

use crate::binary::{posthaste, text};

fn path(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(name)
}

/// Reads a file of the repository.
fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Parses a YAML file of the repository.
fn yaml(name: &str) -> Vec<Yaml> {
    YamlLoader::load_from_str(&read(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn words(list: &Yaml) -> Vec<&str> {
    list.as_vec().into_iter().flatten().filter_map(Yaml::as_str).collect()
}

/// Runs `posthaste config check` on this file, with these variables.
fn check(file: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = posthaste(&["config", "check", "--config", file]);
    command.envs(variables.iter().copied()).output().expect("the binary runs")
}

fn assert_accepted(output: &Output) {
    assert!(output.status.success(), "{}", text(output));
}
