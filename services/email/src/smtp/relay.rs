//! Connecting to a mail server: name resolution, TCP, TLS, greeting.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream};
use lettre::transport::smtp::extension::ClientId;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use worker::Outbound;

use super::failure::{Failure, Stage, failure};
use super::settings::{Security, SmtpSettings};
use super::starttls;
use super::tls::{self, TlsError};

/// Time limit for connecting to one address of the server. It leaves time for the next address if one does not respond.
const CONNECT_LIMIT: Duration = Duration::from_secs(4);
/// Greeting that is passed to the library after STARTTLS. The library expects a greeting on every new stream, but a
/// server does not repeat it after STARTTLS.
const GREETED_BEFORE: &[u8] = b"220 \r\n";

/// Host, port and encryption of a mail server.
pub(crate) struct Relay {
    host: String,
    port: u16,
    outbound: Outbound,
    protection: Protection,
}

enum Protection {
    None,
    StartTls(TlsConnector, ServerName<'static>),
    Tls(TlsConnector, ServerName<'static>),
}

impl Relay {
    pub(crate) fn new(settings: &SmtpSettings, outbound: Outbound) -> Result<Self, TlsError> {
        let host = settings.host.clone();
        let name = || ServerName::try_from(host.clone()).map_err(|error| TlsError(error.to_string()));
        let connector = || tls::connector(settings.ca_certificate.as_deref());
        let protection = match settings.security {
            Security::None => Protection::None,
            Security::StartTls => Protection::StartTls(connector()?, name()?),
            Security::Tls => Protection::Tls(connector()?, name()?),
        };
        Ok(Relay { host, port: settings.port, outbound, protection })
    }

    /// Connects, over TLS if configured, and sends EHLO. Also returns the client name that EHLO contained. It is the
    /// local IP address, because not every machine has a host name that resolves (RFC 5321 section 4.1.4).
    pub(crate) async fn open(&self) -> Result<(AsyncSmtpConnection, ClientId), Failure> {
        let mut stream = self.dial().await.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => Failure::Forbidden { cause: error.to_string() },
            _ => broken(&error),
        })?;
        let client = match stream.local_addr().map_err(|error| broken(&error))?.ip().to_canonical() {
            IpAddr::V4(address) => ClientId::Ipv4(address),
            IpAddr::V6(address) => ClientId::Ipv6(address),
        };
        let stream: Box<dyn AsyncTokioStream> = match &self.protection {
            Protection::None => Box::new(stream),
            Protection::Tls(connector, name) => {
                Box::new(TlsConnection::over(stream, connector, name.clone(), &[]).await?)
            }
            Protection::StartTls(connector, name) => {
                starttls::negotiate(&mut stream, &client.to_string()).await?;
                Box::new(TlsConnection::over(stream, connector, name.clone(), GREETED_BEFORE).await?)
            }
        };
        let refused = |error| failure(Stage::Connect, &error);
        let smtp = AsyncSmtpConnection::connect_with_transport(stream, &client).await.map_err(refused)?;
        Ok((smtp, client))
    }

    /// Server and encryption, for display.
    pub(crate) fn describe(&self) -> String {
        let protection = match self.protection {
            Protection::None => "without TLS",
            Protection::StartTls(..) => "over TLS after STARTTLS",
            Protection::Tls(..) => "over TLS",
        };
        format!("{}:{} {protection}", self.host, self.port)
    }

    /// Opens a TCP connection. It turns Nagle's algorithm off, because the last piece of an email would otherwise wait
    /// for an ACK.
    async fn dial(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in self.outbound.resolve(&self.host, self.port).await? {
            match timeout(CONNECT_LIMIT, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Ok(Err(error)) => last = error,
                Err(elapsed) => last = elapsed.into(),
            }
        }
        Err(last)
    }
}

fn broken(error: &io::Error) -> Failure {
    Failure::Broken { stage: Stage::Connect, cause: error.to_string() }
}

/// A TLS connection that implements the library's trait for streams.
#[derive(Debug)]
struct TlsConnection {
    stream: TlsStream<TcpStream>,
    /// Bytes that the library reads first, before the server's bytes.
    first: &'static [u8],
}

impl TlsConnection {
    async fn over(
        stream: TcpStream,
        connector: &TlsConnector,
        name: ServerName<'static>,
        first: &'static [u8],
    ) -> Result<TlsConnection, Failure> {
        let stream = connector.connect(name, stream).await.map_err(|error| broken(&error))?;
        Ok(TlsConnection { stream, first })
    }
}

impl AsyncTokioStream for TlsConnection {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.get_ref().0.peer_addr()
    }
}

impl AsyncRead for TlsConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.first.is_empty() {
            let (now, later) = self.first.split_at(self.first.len().min(buffer.remaining()));
            buffer.put_slice(now);
            self.first = later;
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for TlsConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
