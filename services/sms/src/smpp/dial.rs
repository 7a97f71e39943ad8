use std::io;
use std::sync::Arc;
use std::time::Duration;

use domain::{Answer, Outcome};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use worker::Outbound;
use worker::outbound::ForbiddenHost;

use super::settings::SmppSettings;

/// Time limit that leaves time for the next address if one does not respond.
const CONNECT_LIMIT: Duration = Duration::from_secs(4);

pub(super) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Connection for S {}

/// Fails with the answer that every waiting submission gets: it pauses the provider if the configuration forbids the connection, otherwise
/// it is a retry.
pub(super) async fn dial(outbound: Outbound, settings: &SmppSettings) -> Result<Box<dyn Connection>, Answer> {
    if !settings.tls && !outbound.allows_private() {
        let message = "the password and every message would be sent unencrypted: set security to tls, or allow \
                       private addresses (outbound.allow_private)";
        return Err(Answer::new(Outcome::PauseProvider, "insecure_login", message));
    }
    secured(outbound, settings).await.map_err(|error| match ForbiddenHost::among(&error) {
        Some(refused) => Answer::new(Outcome::PauseProvider, "not_public", refused.to_string()),
        None => Answer::new(Outcome::RETRY, "connect", error.to_string()).blaming_provider(),
    })
}

async fn secured(outbound: Outbound, settings: &SmppSettings) -> io::Result<Box<dyn Connection>> {
    let stream = connect(outbound, settings).await?;
    if !settings.tls {
        return Ok(Box::new(stream));
    }
    let name = ServerName::try_from(settings.host.clone()).map_err(io::Error::other)?;
    let connector = connector(settings).map_err(io::Error::other)?;
    Ok(Box::new(connector.connect(name, stream).await?))
}

async fn connect(outbound: Outbound, settings: &SmppSettings) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in outbound.resolve(&settings.host, settings.port).await? {
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

fn connector(settings: &SmppSettings) -> Result<TlsConnector, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = if settings.authorities.is_empty() {
        builder.with_platform_verifier()?.with_no_client_auth()
    } else {
        let mut roots = RootCertStore::empty();
        for authority in &settings.authorities {
            roots.add(authority.clone())?;
        }
        builder.with_root_certificates(roots).with_no_client_auth()
    };
    Ok(TlsConnector::from(Arc::new(config)))
}
