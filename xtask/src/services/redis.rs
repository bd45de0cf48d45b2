//! Redis: writes are on disk within a second, no snapshots, no password.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use super::requirement::Requirement;
use super::server_set::{ServerSet, ServerStart};
use super::{Service, port, probe, process, server_url};

/// The URL of a server that is not a cluster.
const URL_VAR: &str = "POSTHASTE_TEST_REDIS_URL";

const REDIS: Requirement = requirement(URL_VAR);

/// The requirement for a server whose URL is in the variable `url_var`.
pub(super) const fn requirement(url_var: &'static str) -> Requirement {
    Requirement {
        url_var,
        bin_var: "POSTHASTE_TEST_REDIS_BIN",
        program: "redis-server",
        packages: &["redis-server"],
        find: |given| given.or_else(|| process::find("redis-server")).filter(|program| program.is_file()),
        addresses: |urls| urls.split(',').filter_map(server_url::redis_address).collect(),
    }
}

/// Settings that differ from Redis's defaults.
const SERVER_ARGS: &[&str] = &[
    "--bind",
    "127.0.0.1",
    "--protected-mode",
    "no",
    // Persistence by the append-only file alone, without snapshots.
    "--appendonly",
    "yes",
    "--appendfsync",
    "everysec",
    "--save",
    "",
    // Redis would overwrite its command line, which `process::is_alive` reads.
    "--set-proc-title",
    "no",
];

pub(super) const SERVICE: Service = Service { missing_packages: || REDIS.missing_packages(), start };

fn start(set: &mut ServerSet) -> Result<(), String> {
    let Some(program) = REDIS.obtain(set)? else { return Ok(()) };
    let port = port::free()?;
    serve(set, "Redis", &program, port, &[])?;
    set.export(URL_VAR, format!("redis://127.0.0.1:{port}/"));
    Ok(())
}

/// Starts a server with its own folder and `more` settings.
pub(super) fn serve(
    set: &mut ServerSet,
    name: &str,
    program: &Path,
    port: u16,
    more: &[&str],
) -> Result<(), String> {
    let data = set.directory().join(name).display().to_string();
    // Created by the user of the server, which writes there.
    set.run(Path::new("mkdir"), &[&data], "")?;
    let port_text = port.to_string();
    let args = [&["--port", &port_text, "--dir", &data], SERVER_ARGS, more].concat();
    let start = ServerStart::new(name, program, &args, port);
    set.serve(&start, || probe::connect(port).is_ok_and(is_ready))
}

/// Whether the server replies to PING. While it loads its data it replies with an error.
fn is_ready(server: impl Read + Write) -> bool {
    exchange(server, "PING").is_ok_and(|reply| reply == "+PONG")
}

/// The reply of the server on `port`: a line with the sign of its type, or the text of a bulk string.
pub(super) fn send_command(port: u16, command: &str) -> io::Result<String> {
    exchange(probe::connect(port)?, command)
}

fn exchange(mut server: impl Read + Write, command: &str) -> io::Result<String> {
    server.write_all(format!("{command}\r\n").as_bytes())?;
    read_reply(BufReader::new(server))
}

fn read_reply(mut from: impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    let line = line.strip_suffix("\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let Some(length) = line.strip_prefix('$') else { return Ok(line.to_owned()) };
    let length = length.parse().map_err(io::Error::other)?;
    let mut text = String::new();
    from.take(length).read_to_string(&mut text)?;
    if text.len() as u64 == length { Ok(text) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::probe::tests::served;

    #[test]
    fn server_is_ready_when_it_replies_to_ping() {
        for (reply, expected) in
            [("+PONG\r\n", true), ("-LOADING Redis is loading\r\n", false), ("+PO", false), ("", false)]
        {
            let (is_ready, request) = served(reply.as_bytes(), is_ready);
            assert_eq!((is_ready, &*request), (expected, &b"PING\r\n"[..]), "{reply:?}");
        }
    }

    #[test]
    fn replies_are_read_to_their_end_and_no_further() {
        for (bytes, expected) in [
            ("+OK\r\n+OK\r\n", Some("+OK")),
            ("-ERR no\r\n", Some("-ERR no")),
            ("$8\r\na:1\r\nb:2\r\n", Some("a:1\r\nb:2")),
            ("$0\r\n\r\n", Some("")),
            ("$8\r\na:1\r\n", None),
            ("$-1\r\n", None),
            ("+OK", None),
        ] {
            assert_eq!(read_reply(bytes.as_bytes()).ok().as_deref(), expected, "{bytes:?}");
        }
    }
}
