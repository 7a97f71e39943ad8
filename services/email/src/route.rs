//! The way to a server: name resolution, TCP, TLS, greeting.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::connection::{Failure, Stage, failure};
use crate::settings::{Security, SmtpSettings};

/// For one address of the server, so that a dead one leaves time for the next.
const CONNECT_LIMIT: Duration = Duration::from_secs(4);

/// Host, port and protection of a server.
pub(crate) struct Route {
    host: String,
    port: u16,
    protection: Protection,
}

enum Protection {
    None,
    StartTls(TlsParameters),
    Tls(TlsConnector, ServerName<'static>),
}

/// TLS cannot be set up on this machine.
#[derive(Debug, thiserror::Error)]
#[error("TLS cannot be set up: {0}")]
pub(crate) struct TlsError(String);

impl Route {
    pub(crate) fn new(settings: &SmtpSettings) -> Result<Self, TlsError> {
        let host = settings.host.clone();
        let protection = match settings.security {
            Security::None => Protection::None,
            Security::StartTls => {
                Protection::StartTls(TlsParameters::new(host.clone()).map_err(|error| tls_error(&error))?)
            }
            Security::Tls => Protection::Tls(
                connector()?,
                ServerName::try_from(host.clone()).map_err(|error| tls_error(&error))?,
            ),
        };
        Ok(Route { host, port: settings.port, protection })
    }

    /// Connects up to and including EHLO, over TLS where asked for. Also returns the name given in EHLO: the address
    /// of this end, since a host name that others can resolve is not to be had everywhere (RFC 5321 section 4.1.4).
    pub(crate) async fn open(&self) -> Result<(AsyncSmtpConnection, ClientId), Failure> {
        let stream = self.dial().await.map_err(|error| broken(&error))?;
        let client = match stream.local_addr().map_err(|error| broken(&error))?.ip().to_canonical() {
            IpAddr::V4(address) => ClientId::Ipv4(address),
            IpAddr::V6(address) => ClientId::Ipv6(address),
        };
        let stream: Box<dyn AsyncTokioStream> = match &self.protection {
            Protection::Tls(connector, name) => Box::new(Encrypted(
                connector.connect(name.clone(), stream).await.map_err(|error| broken(&error))?,
            )),
            Protection::None | Protection::StartTls(_) => Box::new(stream),
        };
        let refused = |error| failure(Stage::Connect, &error);
        let mut smtp = AsyncSmtpConnection::connect_with_transport(stream, &client).await.map_err(refused)?;
        if let Protection::StartTls(parameters) = &self.protection {
            smtp.starttls(parameters.clone(), &client).await.map_err(refused)?;
        }
        Ok((smtp, client))
    }

    /// A TCP connection that sends at once: the last small piece of a message must not wait for an ACK.
    async fn dial(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in tokio::net::lookup_host((self.host.as_str(), self.port)).await? {
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

fn connector() -> Result<TlsConnector, TlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier)
        .map_err(|error| tls_error(&error))?
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn tls_error(error: &impl ToString) -> TlsError {
    TlsError(error.to_string())
}

fn broken(error: &io::Error) -> Failure {
    Failure::Broken { stage: Stage::Connect, cause: error.to_string() }
}

/// A TLS connection as the library wants its streams.
#[derive(Debug)]
struct Encrypted(TlsStream<TcpStream>);

impl AsyncTokioStream for Encrypted {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().0.peer_addr()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
