//! A misbehaving client, which opens raw connections from its own IP address.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;

use crate::service::SOON;

/// A client with its own loopback address. The test uses another address, so the gateway counts the client as a separate peer.
#[derive(Clone, Copy)]
pub(crate) struct Attacker {
    from: Ipv4Addr,
    to: SocketAddr,
}

/// An attack that continues until this value is dropped.
pub(crate) struct Attack(Vec<JoinHandle<()>>);

impl Drop for Attack {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

impl Attacker {
    pub(crate) fn new(number: u8, to: SocketAddr) -> Attacker {
        Attacker { from: Ipv4Addr::new(127, 0, 66, number), to }
    }

    /// Opens a connection. Returns None if the service closes it immediately.
    pub(crate) async fn connect(self) -> Option<TcpStream> {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((self.from, 0).into()).unwrap();
        socket.connect(self.to).await.ok()
    }

    /// Opens a connection and writes these bytes to it.
    pub(crate) async fn begin(self, request: &[u8]) -> Option<TcpStream> {
        let mut connection = self.connect().await?;
        connection.write_all(request).await.ok()?;
        Some(connection)
    }

    /// Sends these bytes, and returns the status of the answer, which may arrive before all bytes are written. Returns None if
    /// the connection ends without an answer.
    pub(crate) async fn status(self, request: &[u8]) -> Option<u16> {
        let (mut answer, mut body) = self.connect().await?.into_split();
        let (_, status) = tokio::join!(body.write_all(request), status(&mut answer));
        status
    }

    /// Keeps this number of connections open. Each writes the request and then stalls. A connection that ends is opened again.
    pub(crate) fn stall(self, connections: usize, request: &[u8]) -> Attack {
        let one = |request: Vec<u8>| async move {
            let mut pace = tokio::time::interval(Duration::from_millis(100));
            loop {
                pace.tick().await;
                if let Some(mut connection) = self.begin(&request).await {
                    status(&mut connection).await;
                }
            }
        };
        Attack((0..connections).map(|_| tokio::spawn(one(request.to_vec()))).collect())
    }
}

/// Reads the status of the answer on this connection.
pub(crate) async fn status(connection: &mut (impl AsyncRead + Unpin)) -> Option<u16> {
    let mut head = [0; 12];
    tokio::time::timeout(SOON, connection.read_exact(&mut head)).await.ok()?.ok()?;
    std::str::from_utf8(&head[9..]).ok()?.parse().ok()
}

/// Builds a request that announces a body of `length` bytes and contains only the first `sent` of them, which begin with `body`.
pub(crate) fn unfinished(head: &str, body: &str, sent: usize, length: usize) -> Vec<u8> {
    let mut request = format!("{head}Host: x\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes();
    let filler = sent.saturating_sub(body.len());
    request.resize(request.len() + filler, b' ');
    request
}
