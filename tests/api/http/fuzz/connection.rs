//! An HTTP connection that is reused for further requests as long as both sides allow.

use std::io::{self, Error, ErrorKind, Read as _};
use std::net::SocketAddr;

use flate2::read::GzDecoder;
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::request::{Framing, Request};

/// A complete answer.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

/// A connection to the service, opened on demand.
pub(crate) struct Connection {
    address: SocketAddr,
    stream: Option<BufReader<TcpStream>>,
}

impl Connection {
    pub(crate) fn new(address: SocketAddr) -> Connection {
        Connection { address, stream: None }
    }

    /// Sends a request and reads its answer.
    pub(crate) async fn exchange(&mut self, request: &Request) -> io::Result<Reply> {
        let mut stream = match self.stream.take() {
            Some(stream) if request.framing == Framing::Sound => stream,
            _ => BufReader::new(TcpStream::connect(self.address).await?),
        };
        // The service may answer and close before it has read the whole request.
        let written = stream.write_all(&request.bytes()).await;
        if request.framing == Framing::Broken {
            stream.shutdown().await.ok();
        }
        let reply =
            read_reply(&mut stream, &request.method).await.map_err(|error| written.err().unwrap_or(error))?;
        // A live stream has no end.
        let closes = reply.headers.get("connection").is_some_and(|value| value == "close")
            || reply.headers.contains_key("transfer-encoding");
        if request.framing == Framing::Sound && !closes {
            self.stream = Some(stream);
        }
        Ok(reply)
    }
}

async fn read_reply(stream: &mut BufReader<TcpStream>, method: &Method) -> io::Result<Reply> {
    let status = line(stream).await?;
    let status = status.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| malformed("the status line"))?;
    let mut headers = HeaderMap::new();
    loop {
        let line = line(stream).await?;
        let Some((name, value)) = line.split_once(": ") else { break };
        let name: HeaderName = name.parse().map_err(|_| malformed(name))?;
        headers.append(name, HeaderValue::from_str(value).map_err(|_| malformed(value))?);
    }
    let length = headers.get("content-length").and_then(|length| length.to_str().ok()?.parse().ok());
    let has_body = *method != Method::HEAD && !matches!(status, 204 | 304);
    let mut body = vec![0; if has_body { length.unwrap_or(0) } else { 0 }];
    stream.read_exact(&mut body).await?;
    if headers.get("content-encoding").is_some_and(|coding| coding == "gzip") && has_body {
        body = decompressed(&body)?;
    }
    Ok(Reply { status, headers, body: String::from_utf8_lossy(&body).into_owned() })
}

fn decompressed(body: &[u8]) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    GzDecoder::new(body).read_to_end(&mut plain)?;
    Ok(plain)
}

async fn line(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    match stream.read_line(&mut line).await? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        _ => Ok(line.trim_end().to_owned()),
    }
}

fn malformed(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("malformed: {what}"))
}
