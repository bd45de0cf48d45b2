//! What stands in for Apache Kafka where it cannot be had: the mock cluster of rdkafka.
//!
//! It is an example of the crate with the publishers, because this one depends on nothing.

use std::fs;
use std::path::Path;

use super::URL_VAR;
use crate::cargo::Cargo;
use crate::services::server_set::{ServerSet, ServerStart};
use crate::services::server_url;

/// Tells tests that what they see is not Kafka.
const MOCK_VAR: &str = "POSTHASTE_TEST_KAFKA_MOCK";

const SERVER_NAME: &str = "Kafka-mock";

/// It runs until its input ends, so it gets one that never does.
const SCRIPT: &str = r#"mkfifo kafka_mock.input && exec "$0" 0<> kafka_mock.input"#;

/// `why` there is no better one.
pub(super) fn serve(set: &mut ServerSet, why: &str) -> Result<(), String> {
    // All of it: the report has room for a line only.
    eprintln!("{why}");
    let program = set.directory().join("kafka_mock");
    build(&program).map_err(|error| {
        format!("Apache Kafka cannot be had, see above, and neither can what stands in for it: {error}")
    })?;
    let program = program.to_string_lossy();
    let log = set.log(SERVER_NAME);
    // It chooses the port itself.
    let said = || fs::read_to_string(&log).unwrap_or_default();
    let args = ["-c", SCRIPT, &program];
    let start = ServerStart::new(SERVER_NAME, Path::new("sh"), &args, 0);
    set.serve(&start, || bootstrap_address(&said()).is_some())?;
    let said = said();
    let address = bootstrap_address(&said).unwrap_or_default();
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

/// A copy of its own: as whom the servers run may not reach what cargo built.
fn build(program: &Path) -> Result<(), String> {
    Cargo::new("build --quiet --locked -p posthaste-publishers --all-features --example kafka_mock")
        .output()?;
    // Cargo puts both below the same folder.
    let xtask = std::env::current_exe().map_err(|error| error.to_string())?;
    let built = xtask.with_file_name("examples").join("kafka_mock");
    let copied = fs::copy(&built, program);
    copied.map(|_| ()).map_err(|error| format!("{} cannot be copied: {error}", built.display()))
}

/// The first line that it says, once that is complete.
fn bootstrap_address(said: &str) -> Option<&str> {
    let (line, _) = said.split_once('\n')?;
    let is_address = server_url::kafka_addresses(&format!("kafka://{line}")).is_some();
    is_address.then_some(line)
}

fn skip_note(why: &str) -> String {
    let why = why.trim().lines().last().unwrap_or_default();
    format!("LEFT OUT: Apache Kafka could not be had ({why}): the Kafka tests ran on rdkafka's mock cluster")
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
        for said in ["", "127.0.0.1:45", "error: no\n"] {
            assert_eq!(bootstrap_address(said), None, "{said:?}");
        }
    }

    #[test]
    fn reason_is_said_in_one_line() {
        let said = skip_note("a long story\nmvn failed: exit status: 1\n");
        let expected = "LEFT OUT: Apache Kafka could not be had (mvn failed: exit status: 1): the Kafka tests ran \
                        on rdkafka's mock cluster";
        assert_eq!(said, expected);
    }
}
