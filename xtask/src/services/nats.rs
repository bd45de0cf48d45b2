//! NATS with JetStream, which keeps messages in files.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;

use super::server_set::{ServerSet, ServerStart};
use super::{Service, env_var, port, process, server_url};

/// The URL of a server with JetStream that asks for no login; several with commas between them.
const URL_VAR: &str = "POSTHASTE_TEST_NATS_URL";

/// The program `nats-server`, for tests that kill and restart a server of their own.
///
/// Who sets it chooses the version that is started here, too.
const BIN_VAR: &str = "POSTHASTE_TEST_NATS_BIN";

/// An event may have a payload of 1 MiB, and headers count too: the default would be just too little.
const SETTINGS: &str = "max_payload: 8MB\n";

pub(super) const SERVICE: Service = Service { missing_packages, start };

fn missing_packages() -> &'static [&'static str] {
    // A program that was given and is not there is a mistake, which no package mends.
    let is_needed = env_var(URL_VAR).is_none() && env_var(BIN_VAR).is_none();
    if is_needed && find().is_none() { &["nats-server"] } else { &[] }
}

fn find() -> Option<PathBuf> {
    let program = env_var(BIN_VAR).map(PathBuf::from).or_else(|| process::find("nats-server"));
    program.filter(|program| program.is_file())
}

fn start(set: &mut ServerSet) -> Result<(), String> {
    let program = find();
    if let Some(program) = &program {
        set.export(BIN_VAR, program.display().to_string());
    }
    if let Some(urls) = env_var(URL_VAR) {
        return set.export_from_env(
            URL_VAR,
            urls.clone(),
            urls.split(',').filter_map(server_url::nats_address),
        );
    }
    let program = program.ok_or_else(|| format!("{BIN_VAR} is no nats-server: set it to one."))?;
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
    let start =
        ServerStart { name: "NATS", program: &program, args: &args, env: &[], port, stop_signal: "TERM" };
    set.serve(&start, || is_ready(port))?;
    set.export(URL_VAR, format!("nats://127.0.0.1:{port}"));
    Ok(())
}

/// The server speaks first, and says what it can do.
fn is_ready(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut line = String::new();
    let greeting = TcpStream::connect_timeout(&address, process::SERVER_TIMEOUT).and_then(|stream| {
        stream.set_read_timeout(Some(process::SERVER_TIMEOUT))?;
        BufReader::new(stream).read_line(&mut line)
    });
    greeting.is_ok() && line.starts_with("INFO ") && line.contains(r#""jetstream":true"#)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn server_is_ready_when_it_has_jetstream() {
        for (greeting, expected) in [
            ("INFO {\"port\":4222,\"jetstream\":true}\r\n", true),
            ("INFO {\"port\":4222}\r\n", false),
            ("-ERR 'no'\r\n", false),
            ("", false),
        ] {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let port = listener.local_addr().unwrap().port();
            let server =
                thread::spawn(move || listener.accept().unwrap().0.write_all(greeting.as_bytes()).unwrap());
            assert_eq!(is_ready(port), expected, "{greeting:?}");
            server.join().unwrap();
        }
    }
}
