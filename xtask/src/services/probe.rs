//! Asks a server on a port of this machine whether it is ready.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use super::process::SERVER_TIMEOUT;

pub(super) fn connect(port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SERVER_TIMEOUT)?;
    stream.set_read_timeout(Some(SERVER_TIMEOUT))?;
    Ok(stream)
}

/// The first bytes that a server says, after `request`.
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

    /// Runs `ask` on a connection to a server that says `reply`. Returns its result and what the server was sent.
    pub(crate) fn served<T>(reply: &[u8], ask: impl FnOnce(UnixStream) -> T) -> (T, Vec<u8>) {
        let (mut server, client) = UnixStream::pair().unwrap();
        server.write_all(reply).unwrap();
        server.shutdown(Shutdown::Write).unwrap();
        let result = ask(client);
        let mut request = Vec::new();
        // A client that did not read the whole reply looks to the server like one that broke off.
        let _ = server.read_to_end(&mut request);
        (result, request)
    }

    #[test]
    fn server_is_asked_where_it_listens_and_nowhere_else() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || ask::<2>(listener.accept().unwrap().0, b"hello").unwrap());
        assert_eq!(&ask::<5>(connect(port).unwrap(), b"hi").unwrap(), b"hello");
        assert_eq!(&server.join().unwrap(), b"hi");
        assert!(connect(port).is_err(), "nothing listens there any more");
    }
}
