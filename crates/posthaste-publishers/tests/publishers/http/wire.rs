//! A minimal HTTP/1.1 server whose responses are arbitrary bytes, so that they can be invalid.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::net::{TcpListener, TcpStream};

pub(super) struct Request {
    pub(super) head: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        header.map(|(_, value)| value.as_str())
    }
}

/// A response with this status, additional header lines, and a body.
pub(super) fn response(status: u16, lines: &[&str], body: &str) -> Vec<u8> {
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    format!("HTTP/1.1 {status} Some Reason\r\ncontent-length: {}\r\n{lines}\r\n{body}", body.len()).into()
}

/// A running test server.
pub(super) struct TestServer {
    pub(super) url: String,
    pub(super) connections: Arc<AtomicUsize>,
}

/// A server that sends the responses of a function. `None` closes the connection.
pub(super) async fn serve<F, A>(handler: F) -> TestServer
where
    F: Fn(Request) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Option<Vec<u8>>> + Send + 'static,
{
    served(move |stream| connection(stream, handler.clone())).await
}

/// A server that runs a function on each connection.
pub(super) async fn served<F, A>(connection: F) -> TestServer
where
    F: Fn(TcpStream) -> A + Send + Sync + 'static,
    A: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/hooks", listener.local_addr().expect("an address"));
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(connection(stream));
        }
    });
    TestServer { url, connections }
}

/// Responds to one request after another.
pub(super) async fn connection<S, F, A>(stream: S, handler: F)
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Fn(Request) -> A,
    A: Future<Output = Option<Vec<u8>>>,
{
    let mut stream = BufReader::new(stream);
    while let Some(request) = request(&mut stream).await {
        let Some(response) = handler(request).await else { return };
        if stream.write_all(&response).await.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
}

/// Reads a request. Returns `None` at the end of the connection.
pub(super) async fn request<S: AsyncRead + Unpin>(stream: &mut BufReader<S>) -> Option<Request> {
    let head = line(stream).await?;
    let mut headers = Vec::new();
    loop {
        let line = line(stream).await?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').expect("a header has a colon");
        headers.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
    }
    let mut request = Request { head, headers, body: Vec::new() };
    let length = request.header("content-length").expect("a length").parse().expect("a number");
    request.body.resize(length, 0);
    stream.read_exact(&mut request.body).await.ok()?;
    Some(request)
}

async fn line<S: AsyncRead + Unpin>(stream: &mut BufReader<S>) -> Option<String> {
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line).await.ok()?;
    let line = line.strip_suffix(b"\r\n")?;
    Some(String::from_utf8(line.to_vec()).expect("text"))
}
