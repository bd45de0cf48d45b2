//! RabbitMQ without plugins: one node with its own epmd and cookie.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::requirement::Requirement;
use super::server_set::{ServerSet, ServerStart, is_listening};
use super::{Service, port, probe, process, server_url};

/// The URL of a user with all rights on the virtual host.
const URL_VAR: &str = "POSTHASTE_TEST_AMQP_URL";

const RABBITMQ: Requirement = Requirement {
    url_var: URL_VAR,
    bin_var: "POSTHASTE_TEST_RABBITMQ_BIN",
    program: "rabbitmq-server",
    packages: &["rabbitmq-server"],
    find,
    addresses: |url| server_url::amqp_address(url).into_iter().collect(),
};

/// Debian's real program. The one on the PATH is a wrapper that must run as root and changes to another user.
const DEBIAN_PROGRAM: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/// Settings that differ from RabbitMQ's defaults.
const SERVER_ARGS: &[&str] = &[
    "-noinput",
    // Two scheduler threads, which do not spin while idle.
    "+S",
    "2:2",
    "+sbwt",
    "none",
    "+sbwtdcpu",
    "none",
    "+sbwtdio",
    "none",
    // The listener for other nodes on 127.0.0.1. By default it is on every interface.
    "-kernel",
    "inet_dist_use_interface",
    "{127,0,0,1}",
];

pub(super) const SERVICE: Service = Service { missing_packages: || RABBITMQ.missing_packages(), start };

fn find(given: Option<PathBuf>) -> Option<PathBuf> {
    let installed = || Some(PathBuf::from(DEBIAN_PROGRAM)).filter(|program| program.is_file());
    let program = given.or_else(installed).or_else(|| process::find("rabbitmq-server"));
    program.filter(|program| program.is_file())
}

fn start(set: &mut ServerSet) -> Result<(), String> {
    let Some(program) = RABBITMQ.obtain(set)? else { return Ok(()) };
    let epmd_port = serve_epmd(set)?;
    serve(set, &program, epmd_port)
}

/// Starts epmd, Erlang's register of nodes. If none ran, the node would start one itself, and that process would
/// outlive the node.
fn serve_epmd(set: &mut ServerSet) -> Result<u16, String> {
    let program = process::find("epmd").ok_or("epmd is not on the PATH: install Erlang")?;
    // epmd accepts no other arguments, and `process::is_alive` needs the directory on the command line.
    let link = set.directory().join("epmd");
    set.run(Path::new("ln"), &["-s", &program.to_string_lossy(), &link.to_string_lossy()], "")?;
    let port = port::free()?;
    let args = ["-port", &port.to_string(), "-address", "127.0.0.1"];
    let start = ServerStart::new("epmd", &link, &args, port);
    set.serve(&start, || is_listening(("127.0.0.1", port)))?;
    Ok(port)
}

fn serve(set: &mut ServerSet, program: &Path, epmd_port: u16) -> Result<(), String> {
    let (port, dist_port) = port::free_pair()?;
    let home = set.directory().join("rabbitmq");
    let home_text = home.display().to_string();
    // Created by the user of the server, which writes there.
    set.run(Path::new("mkdir"), &[&home_text], "")?;
    // Erlang ignores an unknown flag. This one puts the directory on the command line, for `process::is_alive`.
    let args = [SERVER_ARGS, &["-posthaste", &home_text]].concat();
    let env = environment(&home, port, dist_port, epmd_port);
    let start = ServerStart { env: &env, ..ServerStart::new("RabbitMQ", program, &args, port) };
    set.serve_slowly(&start, |port| probe::connect(port).is_ok_and(is_ready))?;
    set.export(URL_VAR, format!("amqp://guest:guest@127.0.0.1:{port}/%2f"));
    Ok(())
}

/// The settings of the node. It shares no file and no port with a node of the system.
fn environment(home: &Path, port: u16, dist_port: u16, epmd_port: u16) -> Vec<(&'static str, String)> {
    let text = str::to_owned;
    let in_home = |name| home.join(name).display().to_string();
    vec![
        // The cookie, the shared secret of nodes, is in the home folder.
        ("HOME", home.display().to_string()),
        ("ERL_EPMD_PORT", epmd_port.to_string()),
        ("ERL_EPMD_ADDRESS", text("127.0.0.1")),
        ("RABBITMQ_NODENAME", format!("posthaste-{port}@localhost")),
        ("RABBITMQ_NODE_IP_ADDRESS", text("127.0.0.1")),
        ("RABBITMQ_NODE_PORT", port.to_string()),
        ("RABBITMQ_DIST_PORT", dist_port.to_string()),
        ("RABBITMQ_MNESIA_BASE", in_home("data")),
        ("RABBITMQ_PID_FILE", in_home("pid")),
        ("RABBITMQ_LOG_BASE", home.display().to_string()),
        // Standard output.
        ("RABBITMQ_LOGS", text("-")),
        // These files do not exist.
        ("RABBITMQ_ENABLED_PLUGINS_FILE", in_home("enabled_plugins")),
        ("RABBITMQ_CONF_ENV_FILE", in_home("env.conf")),
        ("RABBITMQ_CONFIG_FILE", in_home("settings")),
        ("RABBITMQ_ADVANCED_CONFIG_FILE", in_home("advanced.config")),
        // The script replaces itself with the node, so that the process id is that of the node. This also makes the
        // node read standard input, which `-noinput` prevents.
        ("RABBITMQ_ALLOW_INPUT", text("1")),
    ]
}

/// Whether the server replies to the protocol header with its first method.
fn is_ready(server: impl Read + Write) -> bool {
    const GREETING: &[u8] = b"AMQP\0\0\x09\x01";
    const METHOD_FRAME: u8 = 1;
    probe::ask(server, GREETING).is_ok_and(|begin| begin == [METHOD_FRAME])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::probe::tests::served;

    #[test]
    fn node_shares_nothing_with_a_node_of_the_system() {
        let environment = environment(Path::new("/tmp/d"), 20_002, 20_003, 20_001);
        for name in ["HOME", "RABBITMQ_MNESIA_BASE", "RABBITMQ_LOG_BASE", "RABBITMQ_CONFIG_FILE"] {
            let (_, value) = environment.iter().find(|(known, _)| *known == name).unwrap();
            assert!(value.starts_with("/tmp/d"), "{name}={value}");
        }
        assert!(environment.contains(&("RABBITMQ_NODE_PORT", "20002".to_owned())));
        assert!(environment.contains(&("RABBITMQ_DIST_PORT", "20003".to_owned())));
        assert!(environment.contains(&("ERL_EPMD_PORT", "20001".to_owned())));
    }

    #[test]
    fn server_is_ready_when_it_begins_a_connection() {
        for (reply, expected) in [(&b"\x01\0\0"[..], true), (b"AMQP\0\0\x09\x01", false), (b"", false)] {
            let (is_ready, request) = served(reply, is_ready);
            assert_eq!((is_ready, &*request), (expected, &b"AMQP\0\0\x09\x01"[..]), "{reply:?}");
        }
    }
}
