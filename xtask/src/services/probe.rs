//! Readiness probes: a connection to a server on this machine, and the first bytes of its reply.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use super::process::SERVER_TIMEOUT;

pub(super) fn connect(port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SERVER_TIMEOUT)?;
    stream.set_read_timeout(Some(SERVER_TIMEOUT))?;
    Ok(stream)
}

/// Sends `request` and returns the first bytes of the reply.
pub(super) fn ask<const LENGTH: usize>(
    mut server: impl Read + Write,
    request: &[u8],
) -> io::Result<[u8; LENGTH]> {
    let mut reply = [0; LENGTH];
    server.write_all(request)?;
    server.read_exact(&mut reply)?;
    Ok(reply)
}

#[cfg(unix)]
#[cfg(test)]
pub(super) mod tests {
    use std::net::{Shutdown, TcpListener};
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Runs `ask` on a connection to a server that sends `reply`. Returns its result and the bytes that it sent.
    pub(crate) fn served<T>(reply: &[u8], ask: impl FnOnce(UnixStream) -> T) -> (T, Vec<u8>) {
        let (mut server, client) = UnixStream::pair().unwrap();
        server.write_all(reply).unwrap();
        server.shutdown(Shutdown::Write).unwrap();
        let result = ask(client);
        let mut request = Vec::new();
        // An error means that `ask` did not read the whole reply. Its request is complete all the same.
        let _ = server.read_to_end(&mut request);
        (result, request)
    }

    #[test]
    fn probe_connects_only_to_a_port_with_a_server() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || ask::<2>(listener.accept().unwrap().0, b"hello").unwrap());
        assert_eq!(&ask::<5>(connect(port).unwrap(), b"hi").unwrap(), b"hello");
        assert_eq!(&server.join().unwrap(), b"hi");
        assert!(connect(port).is_err(), "nothing listens there any more");
    }
}
