//! A private RabbitMQ node for one test, with its own name server (epmd).

use std::path::Path;
use std::process::{Command, Stdio};

use lapin::{Connection, ConnectionProperties};
use posthaste_testkit::process::{free_port, program};
use posthaste_testkit::server::OwnServer;
use posthaste_testkit::variable;

use super::queue::Queue;

pub(super) struct Node {
    pub(super) server: OwnServer,
    names: OwnServer,
}

/// Arguments of the Erlang VM: two scheduler threads, which do not busy-wait when idle.
const THREAD_ARGS: [&str; 8] = ["+S", "2:2", "+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none"];

impl Node {
    pub(super) fn new() -> Self {
        Self::with_settings("")
    }

    /// A node with these lines in `rabbitmq.conf`.
    pub(super) fn with_settings(settings: &str) -> Self {
        let names = OwnServer::new(|_, port| {
            let mut command = program("epmd");
            command.args(["-port", &port.to_string(), "-address", "127.0.0.1"]);
            command
        });
        let (names_port, nodes_port) = (names.port(), free_port());
        let server = OwnServer::new(move |folder, port| start(folder, port, nodes_port, names_port));
        std::fs::write(server.dir().join("settings.conf"), settings).expect("a file");
        Self { server, names }
    }

    /// A node with the management plugin, and the plugin's URL.
    pub(super) fn with_management() -> (Self, String) {
        let port = free_port();
        let node =
            Self::with_settings(&format!("management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {port}\n"));
        std::fs::write(node.server.dir().join("enabled_plugins"), "[rabbitmq_management].\n")
            .expect("a file");
        (node, format!("http://127.0.0.1:{port}"))
    }

    /// The URL with a user who has all permissions.
    pub(super) fn url(&self) -> String {
        url(self.server.port())
    }

    pub(super) async fn start(&mut self) {
        self.names.listen().await;
        self.server.start(|running| is_ready(running.port)).await;
    }

    /// Starts the node and declares a queue that survives a kill. RabbitMQ writes declarations to its log with a
    /// delay; a node that is killed before that has an exchange without its queue, so the log is synced here.
    pub(super) async fn start_with(&mut self, queue: &Queue) {
        self.start().await;
        queue.declare().await;
        self.control(&["eval", "mnesia:sync_log()."]).await;
    }

    /// Runs `rabbitmqctl` for this node.
    pub(super) async fn control(&self, arguments: &[&str]) {
        let program = Path::new(&variable("POSTHASTE_TEST_RABBITMQ_BIN")).with_file_name("rabbitmqctl");
        let mut command = Command::new(program);
        environment(&mut command, self.server.dir(), self.server.port(), self.names.port());
        command.arg("--quiet").args(arguments).stdout(Stdio::null());
        let status = tokio::task::spawn_blocking(move || command.status()).await.expect("a wait");
        assert!(status.is_ok_and(|status| status.success()), "rabbitmqctl {arguments:?}");
    }
}

fn url(port: u16) -> String {
    format!("amqp://guest:guest@127.0.0.1:{port}/%2f")
}

async fn is_ready(port: u16) -> bool {
    Connection::connect(&url(port), ConnectionProperties::default()).await.is_ok()
}

fn start(folder: &Path, port: u16, nodes_port: u16, names_port: u16) -> Command {
    let mut command = program(variable("POSTHASTE_TEST_RABBITMQ_BIN"));
    environment(&mut command, folder, port, names_port);
    // The script is replaced by the node instead of supervising it, so that killing the process kills the node.
    command.env("RABBITMQ_ALLOW_INPUT", "1").arg("-noinput").args(THREAD_ARGS);
    command.args(["-kernel", "inet_dist_use_interface", "{127,0,0,1}"]);
    command.env("RABBITMQ_DIST_PORT", nodes_port.to_string());
    command
}

/// Sets all paths and ports, so that nothing is shared with another node.
fn environment(command: &mut Command, folder: &Path, port: u16, names_port: u16) {
    command
        .env("HOME", folder)
        .env("ERL_EPMD_PORT", names_port.to_string())
        .env("ERL_EPMD_ADDRESS", "127.0.0.1")
        .env("RABBITMQ_NODENAME", format!("posthaste-{port}@localhost"))
        .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
        .env("RABBITMQ_NODE_PORT", port.to_string())
        .env("RABBITMQ_MNESIA_BASE", folder.join("data"))
        .env("RABBITMQ_PID_FILE", folder.join("pid"))
        .env("RABBITMQ_LOG_BASE", folder)
        .env("RABBITMQ_ENABLED_PLUGINS_FILE", folder.join("enabled_plugins"))
        .env("RABBITMQ_CONF_ENV_FILE", folder.join("env.conf"))
        .env("RABBITMQ_CONFIG_FILE", folder.join("settings.conf"))
        .env("RABBITMQ_ADVANCED_CONFIG_FILE", folder.join("advanced.config"));
}
