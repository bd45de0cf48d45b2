//! Apache Kafka: one node that is both broker and controller, without automatic creation of topics.

mod jars;
mod mock;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::server_set::{ServerSet, ServerStart};
use super::{Service, env_var, install, port, probe, process, server_url};

/// The addresses of brokers without a login, as `kafka://host:port,host:port`.
const URL_VAR: &str = "POSTHASTE_TEST_KAFKA_URL";

/// The folder with Kafka's jars, for tests that kill and restart a broker of their own. A user who sets it also chooses
/// the version that is started here.
const LIB_VAR: &str = "POSTHASTE_TEST_KAFKA_LIB";

/// A quick start and little memory, at the cost of speed that no test needs.
const JAVA_ARGS: &[&str] = &[
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
];

/// Any valid id: there is no other cluster.
const CLUSTER_ID: &str = "cG9zdGhhc3RlLXRlc3Rzcw";

/// It requires no packages: without Java or Maven, the mock cluster is used.
pub(super) const SERVICE: Service = Service { missing_packages: Vec::new, start };

fn start(set: &mut ServerSet) -> Result<(), String> {
    let programs = Programs::obtain();
    if let Ok(programs) = &programs {
        set.export(LIB_VAR, programs.jars.display().to_string());
    }
    if let Some(url) = env_var(URL_VAR) {
        return set.export_from_env(URL_VAR, &url, server_url::kafka_addresses(&url).into_iter().flatten());
    }
    match programs {
        Ok(programs) => programs.serve(set),
        Err(why) => mock::serve(set, &why),
    }
}

struct Programs {
    java: PathBuf,
    jars: PathBuf,
}

impl Programs {
    fn obtain() -> Result<Self, String> {
        if process::find("java").is_none() {
            install::install(&["default-jre-headless"])?;
        }
        let java = process::find("java").ok_or("java is not on the PATH")?;
        let jars = env_var(LIB_VAR).map_or_else(jars::obtain, |jars| Ok(PathBuf::from(jars)))?;
        Ok(Self { java, jars })
    }

    fn serve(&self, set: &mut ServerSet) -> Result<(), String> {
        let (port, controller_port) = port::free_pair()?;
        let data = set.directory().join("kafka");
        let file = set.create_file("kafka.properties", &settings(&data, port, controller_port))?;
        let file = file.to_string_lossy();
        // Kafka unpacks C libraries there.
        let temporary = format!("-Djava.io.tmpdir={}", set.directory().display());
        // Java expands the `*` itself.
        let jars = format!("{}/*", self.jars.display());
        let java = [JAVA_ARGS, &[&temporary, "-cp", &jars]].concat();
        let format = [
            "kafka.tools.StorageTool",
            "format",
            "--standalone",
            "--cluster-id",
            CLUSTER_ID,
            "--config",
            &file,
        ];
        set.run(&self.java, &[&*java, &format].concat(), "")?;
        let args = [&*java, &["kafka.Kafka", &file]].concat();
        let start = ServerStart::new("Kafka", &self.java, &args, port);
        set.serve_slowly(&start, |port| probe::connect(port).is_ok_and(is_ready))?;
        set.export(URL_VAR, format!("kafka://127.0.0.1:{port}"));
        Ok(())
    }
}

/// Settings that differ from Kafka's defaults.
fn settings(data: &Path, port: u16, controller_port: u16) -> String {
    let data = data.display();
    format!(
        "process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
log.dirs={data}

# A test that forgets to create its topic must fail.
auto.create.topics.enable=false
num.partitions=3

# There is one node only.
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1

# Consumers of tests must not wait for each other. Few files and threads are enough.
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=3
transaction.state.log.num.partitions=3
num.network.threads=2
num.io.threads=2
num.recovery.threads.per.data.dir=1
background.threads=1
"
    )
}

/// Whether the broker replies to ApiVersions, the request for the versions of its protocol.
fn is_ready(server: impl Read + Write) -> bool {
    /// The length, the key and version of ApiVersions, a correlation id, and no client id.
    const REQUEST: &[u8] = b"\0\0\0\x0a\0\x12\0\0post\xff\xff";
    // The length, the correlation id, and error code 0.
    probe::ask::<10>(server, REQUEST).is_ok_and(|begin| &begin[4..] == b"post\0\0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::probe::tests::served;

    #[test]
    fn node_is_private_and_a_cluster_of_one() {
        let settings = settings(Path::new("/tmp/d"), 20_002, 20_003);
        for line in [
            "listeners=PLAINTEXT://127.0.0.1:20002,CONTROLLER://127.0.0.1:20003",
            "controller.quorum.bootstrap.servers=127.0.0.1:20003",
            "log.dirs=/tmp/d",
            "auto.create.topics.enable=false",
            "transaction.state.log.min.isr=1",
        ] {
            assert!(settings.lines().any(|set| set == line), "{line}");
        }
    }

    #[test]
    fn broker_is_ready_when_it_replies_with_its_versions() {
        for (reply, expected) in [
            (&b"\0\0\0\x0apost\0\0\0\0\0\0"[..], true),
            (b"\0\0\0\x0apost\0\x23\0\0\0\0", false),
            (b"\0\0\0\x0aelse\0\0\0\0\0\0", false),
            (b"", false),
        ] {
            let (is_ready, request) = served(reply, is_ready);
            assert_eq!((is_ready, request.len()), (expected, 14), "{reply:?}");
        }
    }
}
