//! HTTP by hand, for what a client library would not send.

use std::net::SocketAddr;

use http::HeaderMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::app::SOON;
use super::reply::Reply;

/// A connection that sends the bytes that it is given.
pub(crate) struct RawConnection(pub(crate) TcpStream);

impl RawConnection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    /// Sends; a server that has already answered and closed is no fault of the test's.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).await.is_ok()
    }

    /// Sends one chunk.
    pub(crate) async fn chunk(&mut self, bytes: &[u8]) -> bool {
        let head = format!("{:x}\r\n", bytes.len());
        self.send(&[head.as_bytes(), bytes, b"\r\n"].concat()).await
    }

    /// The answer, read until the server closes; the request has to ask for that.
    pub(crate) async fn reply(mut self) -> Reply {
        let mut bytes = Vec::new();
        let read = tokio::time::timeout(SOON, self.0.read_to_end(&mut bytes)).await;
        if let Err(fault) = read.expect("the server closes the connection") {
            assert!(!bytes.is_empty(), "the answer was lost: {fault}");
        }
        Reply::parse(&bytes)
    }

    /// Whether the server closes the connection without a word.
    pub(crate) async fn closes(mut self) -> bool {
        let mut byte = [0];
        matches!(tokio::time::timeout(SOON, self.0.read(&mut byte)).await, Ok(Ok(0) | Err(_)))
    }
}

/// The head of a POST with these headers.
pub(crate) fn head(path: &str, headers: &HeaderMap, more: &str) -> Vec<u8> {
    let mut head = format!("POST {path} HTTP/1.1\r\nhost: hooks.example\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
    }
    format!("{head}{more}\r\n").into_bytes()
}
