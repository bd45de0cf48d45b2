//! NATS with JetStream on disk.

use std::io::{BufRead, BufReader, Read};

use super::requirement::Requirement;
use super::server_set::{ServerSet, ServerStart};
use super::{Service, port, probe, process, server_url};

/// The URL of a server with JetStream and without a login, or several with commas between them.
const URL_VAR: &str = "POSTHASTE_TEST_NATS_URL";

const NATS: Requirement = Requirement {
    url_var: URL_VAR,
    bin_var: "POSTHASTE_TEST_NATS_BIN",
    program: "nats-server",
    packages: &["nats-server"],
    find: |given| given.or_else(|| process::find("nats-server")).filter(|program| program.is_file()),
    addresses: |urls| urls.split(',').filter_map(server_url::nats_address).collect(),
};

/// A payload of an event may have 1 MiB. NATS counts the headers too, so its default of 1 MiB is too small.
const SETTINGS: &str = "max_payload: 8MB\n";

pub(super) const SERVICE: Service = Service { missing_packages: || NATS.missing_packages(), start };

fn start(set: &mut ServerSet) -> Result<(), String> {
    let Some(program) = NATS.obtain(set)? else { return Ok(()) };
    let port = port::free()?;
    let port_text = port.to_string();
    let data = set.directory().join("nats").display().to_string();
    let settings = set.create_file("nats.conf", SETTINGS)?.display().to_string();
    let args = [
        "--config",
        &settings,
        "--addr",
        "127.0.0.1",
        "--port",
        &port_text,
        "--jetstream",
        "--store_dir",
        &data,
    ];
    let start = ServerStart::new("NATS", &program, &args, port);
    set.serve(&start, || probe::connect(port).is_ok_and(is_ready))?;
    set.export(URL_VAR, format!("nats://127.0.0.1:{port}"));
    Ok(())
}

/// Whether the server sends its greeting and has JetStream.
fn is_ready(server: impl Read) -> bool {
    let mut line = String::new();
    let greeting = BufReader::new(server).read_line(&mut line);
    greeting.is_ok() && line.starts_with("INFO ") && line.contains(r#""jetstream":true"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_is_ready_when_it_has_jetstream() {
        for (greeting, expected) in [
            ("INFO {\"port\":4222,\"jetstream\":true}\r\n", true),
            ("INFO {\"port\":4222}\r\n", false),
            ("-ERR 'no'\r\n", false),
            ("", false),
        ] {
            assert_eq!(is_ready(greeting.as_bytes()), expected, "{greeting:?}");
        }
    }
}
