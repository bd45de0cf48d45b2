//! The mock cluster of rdkafka, which replaces Apache Kafka if that cannot be installed.
//!
//! The program is an example of posthaste-publishers, because xtask does not depend on rdkafka.

use std::fs;
use std::path::Path;

use super::URL_VAR;
use crate::cargo::Cargo;
use crate::services::server_set::{ServerSet, ServerStart};
use crate::services::server_url;

/// The variable that tells tests that Kafka is the mock cluster.
const MOCK_VAR: &str = "POSTHASTE_TEST_KAFKA_MOCK";

const SERVER_NAME: &str = "Kafka-mock";

/// The program runs until its standard input ends. A pipe that the program itself holds open never ends.
const SCRIPT: &str = r#"mkfifo kafka_mock.input && exec "$0" 0<> kafka_mock.input"#;

/// Starts the mock cluster. `why` is the reason that Apache Kafka is not available.
pub(super) fn serve(set: &mut ServerSet, why: &str) -> Result<(), String> {
    // The whole reason: the report has only its last line.
    eprintln!("{why}");
    let program = set.directory().join("kafka_mock");
    build(&program).map_err(|error| {
        format!("Apache Kafka cannot be installed, see above, and its mock cannot be built: {error}")
    })?;
    let program = program.to_string_lossy();
    let log = set.log(SERVER_NAME);
    // The program chooses the port itself.
    let output = || fs::read_to_string(&log).unwrap_or_default();
    let args = ["-c", SCRIPT, &program];
    let start = ServerStart::new(SERVER_NAME, Path::new("sh"), &args, 0);
    set.serve(&start, || bootstrap_address(&output()).is_some())?;
    let output = output();
    let address = bootstrap_address(&output).unwrap_or_default();
    let url = format!("kafka://{address}");
    if let Some((_, port)) =
        server_url::kafka_addresses(&url).and_then(|addresses| addresses.first().copied())
    {
        set.correct_port(port);
    }
    set.export(URL_VAR, url);
    set.export(MOCK_VAR, "1");
    set.note(&skip_note(why));
    Ok(())
}

/// Builds the program and copies it: the user of the servers may have no access to cargo's build output.
fn build(program: &Path) -> Result<(), String> {
    Cargo::new("build --quiet --locked -p posthaste-publishers --all-features --example kafka_mock")
        .output()?;
    // Cargo puts the program into a folder beside this one.
    let xtask = std::env::current_exe().map_err(|error| error.to_string())?;
    let built = xtask.with_file_name("examples").join("kafka_mock");
    let copied = fs::copy(&built, program);
    copied.map(|_| ()).map_err(|error| format!("{} cannot be copied: {error}", built.display()))
}

/// The first line of the program's output, once it is complete.
fn bootstrap_address(output: &str) -> Option<&str> {
    let (line, _) = output.split_once('\n')?;
    let is_address = server_url::kafka_addresses(&format!("kafka://{line}")).is_some();
    is_address.then_some(line)
}

fn skip_note(why: &str) -> String {
    let why = why.trim().lines().last().unwrap_or_default();
    format!(
        "LEFT OUT: Apache Kafka cannot be installed ({why}): the Kafka tests ran on rdkafka's mock cluster"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_the_first_line() {
        assert_eq!(bootstrap_address("127.0.0.1:4567\nmore\n"), Some("127.0.0.1:4567"));
        assert_eq!(
            bootstrap_address("127.0.0.1:4567,127.0.0.1:4568\n"),
            Some("127.0.0.1:4567,127.0.0.1:4568")
        );
        for output in ["", "127.0.0.1:45", "error: no\n"] {
            assert_eq!(bootstrap_address(output), None, "{output:?}");
        }
    }

    #[test]
    fn reason_is_one_line_of_the_note() {
        let output = skip_note("a long story\nmvn failed: exit status: 1\n");
        let expected = "LEFT OUT: Apache Kafka cannot be installed (mvn failed: exit status: 1): the Kafka tests ran \
                        on rdkafka's mock cluster";
        assert_eq!(output, expected);
    }
}
