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

#[cfg(test)]
pub(super) mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A server that says `reply`, and keeps what it is told.
    pub(crate) struct Server<'a> {
        pub(crate) reply: &'a [u8],
        pub(crate) request: Vec<u8>,
    }

    impl<'a> Server<'a> {
        pub(crate) fn new(reply: &'a [u8]) -> Self {
            Self { reply, request: Vec::new() }
        }
    }

    impl Read for &mut Server<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.reply.read(buffer)
        }
    }

    impl Write for &mut Server<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.request.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
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
