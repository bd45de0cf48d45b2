//! Redis: every write is on the disk after a second at most, and nobody needs a password.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use super::server_set::{ServerSet, ServerStart};
use super::{Service, env_var, port, process, server_url};

/// The URL of a server that stands alone.
const URL_VAR: &str = "POSTHASTE_TEST_REDIS_URL";

/// The program `redis-server`, for tests that kill and restart a server of their own.
///
/// Who sets it chooses the version that is started here, too.
const BIN_VAR: &str = "POSTHASTE_TEST_REDIS_BIN";

/// What is not here stays as Redis has it.
const SERVER_ARGS: &[&str] = &[
    "--bind",
    "127.0.0.1",
    "--protected-mode",
    "no",
    // The log alone, as where Redis keeps what nobody may lose: no snapshots beside it.
    "--appendonly",
    "yes",
    "--appendfsync",
    "everysec",
    "--save",
    "",
    // Redis would overwrite its command line, and by that we know the process again.
    "--set-proc-title",
    "no",
];

pub(super) const SERVICE: Service = Service { missing_packages: || missing_packages(URL_VAR), start };

/// What a server that `url` could have named needs.
pub(super) fn missing_packages(url: &str) -> &'static [&'static str] {
    // A program that was given and is not there is a mistake, which no package mends.
    let is_needed = env_var(url).is_none() && env_var(BIN_VAR).is_none();
    if is_needed && find().is_none() { &["redis-server"] } else { &[] }
}

fn find() -> Option<PathBuf> {
    let program = env_var(BIN_VAR).map(PathBuf::from).or_else(|| process::find("redis-server"));
    program.filter(|program| program.is_file())
}

fn start(set: &mut ServerSet) -> Result<(), String> {
    if let Some(program) = find() {
        set.export(BIN_VAR, program.display().to_string());
    }
    if let Some(url) = env_var(URL_VAR) {
        return set.export_from_env(URL_VAR, url.clone(), server_url::redis_address(&url));
    }
    let port = port::free()?;
    serve(set, "Redis", port, &[])?;
    set.export(URL_VAR, format!("redis://127.0.0.1:{port}/"));
    Ok(())
}

/// Starts a server with a folder of its own and `more` settings.
pub(super) fn serve(set: &mut ServerSet, name: &str, port: u16, more: &[&str]) -> Result<(), String> {
    let program = find().ok_or_else(|| format!("{BIN_VAR} is no redis-server: set it to one."))?;
    let data = set.directory().join(name).display().to_string();
    // Made as the server runs, which has to write there.
    set.run(Path::new("mkdir"), &[&data], "")?;
    let port_text = port.to_string();
    let args = [&["--port", &port_text, "--dir", &data], SERVER_ARGS, more].concat();
    let start = ServerStart { name, program: &program, args: &args, env: &[], port, stop_signal: "TERM" };
    set.serve(&start, || is_ready(port))
}

/// A server that still reads its data answers as well, with an error.
fn is_ready(port: u16) -> bool {
    send_command(port, "PING").is_ok_and(|reply| reply == "+PONG")
}

/// What the server there replies: a line with the sign of its kind, or the text of many lines.
pub(super) fn send_command(port: u16, command: &str) -> io::Result<String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, process::SERVER_TIMEOUT)?;
    stream.set_read_timeout(Some(process::SERVER_TIMEOUT))?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    read_reply(BufReader::new(stream))
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
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn server_is_ready_when_it_answers_a_ping() {
        for (reply, expected) in
            [("+PONG\r\n", true), ("-LOADING Redis is loading\r\n", false), ("+PO", false), ("", false)]
        {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let port = listener.local_addr().unwrap().port();
            let server = thread::spawn(move || {
                let mut stream = BufReader::new(listener.accept().unwrap().0);
                let mut command = String::new();
                stream.read_line(&mut command).unwrap();
                stream.get_mut().write_all(reply.as_bytes()).unwrap();
                command
            });
            assert_eq!(is_ready(port), expected, "{reply:?}");
            assert_eq!(server.join().unwrap(), "PING\r\n");
        }
    }

    #[test]
    fn nobody_is_ready_where_nobody_listens() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        assert!(!is_ready(port));
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
