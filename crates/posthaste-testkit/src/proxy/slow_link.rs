//! A slow link: a TCP proxy that limits the bytes per second of responses.

use std::io::{self, Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A proxy that limits responses to a number of bytes per second, for all connections together.
#[derive(Debug)]
pub struct SlowLink(SocketAddr);

/// The time from which the link can send more bytes.
type FreeAt = Arc<Mutex<Instant>>;

impl SlowLink {
    /// A link to the server at this `host:port`.
    pub fn to(server: &str, bytes_per_second: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (server, free_at) = (server.to_owned(), Arc::new(Mutex::new(Instant::now())));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&server) else { continue };
                // An error means that the client or the server has closed the connection.
                let _ = connect_both(client, server, Arc::clone(&free_at), bytes_per_second);
            }
        });
        Self(address)
    }

    /// `host:port`.
    pub fn address(&self) -> String {
        self.0.to_string()
    }
}

fn connect_both(
    client: TcpStream,
    server: TcpStream,
    free_at: FreeAt,
    bytes_per_second: usize,
) -> io::Result<()> {
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(std::net::Shutdown::Write);
    });
    std::thread::spawn(move || {
        let _ = copy_slowly(server, &client, &free_at, bytes_per_second);
        let _ = client.shutdown(std::net::Shutdown::Both);
    });
    Ok(())
}

fn copy_slowly(
    mut from: TcpStream,
    mut to: &TcpStream,
    free_at: &FreeAt,
    bytes_per_second: usize,
) -> io::Result<()> {
    let mut bytes = vec![0; 65_536];
    loop {
        let count = from.read(&mut bytes)?;
        if count == 0 {
            return Ok(());
        }
        to.write_all(&bytes[..count])?;
        let takes = Duration::from_secs_f64(count as f64 / bytes_per_second as f64);
        let until = {
            let mut free_at = free_at.lock().expect("no panic");
            *free_at = (*free_at).max(Instant::now()) + takes;
            *free_at
        };
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            std::thread::park_timeout(left);
        }
    }
}
