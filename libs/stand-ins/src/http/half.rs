//! HTTP server that closes the connection in the middle of an answer's body.

use std::io;
use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Starts to listen, and returns the URL of the server and a future that serves one request. The server answers it with
/// `status`, and closes the connection in the middle of the answer's body.
pub async fn half_answer(status: u16) -> io::Result<(String, impl Future<Output = io::Result<()>>)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let url = format!("http://{}/", listener.local_addr()?);
    let answering = async move {
        let (mut stream, _) = listener.accept().await?;
        read_request(&mut stream).await?;
        let answer = format!("HTTP/1.1 {status} Half\r\ncontent-length: 40\r\n\r\n{{\"reason\":");
        stream.write_all(answer.as_bytes()).await
    };
    Ok((url, answering))
}

/// Reads the whole request. If the server closed the connection with unread input, TCP would reset the connection, and the
/// client might not get the answer.
async fn read_request(stream: &mut TcpStream) -> io::Result<()> {
    let mut request = Vec::new();
    while !is_whole(&request) {
        if stream.read_buf(&mut request).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let mut lengths =
        head.lines().filter_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    body.len() >= lengths.next().unwrap_or(0_usize)
}
