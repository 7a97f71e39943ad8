use std::io;

use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use worker::Outbound;

use super::failure::{Failure, Stage};
use super::features::{Features, greeting, hello};
use super::limits::Times;
use super::settings::{Security, SmtpSettings};
use super::tls::{self, TlsError};
use super::wire::{Transport, Wire, broken, within};

pub(crate) struct Relay {
    host: String,
    port: u16,
    client: String,
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
        Ok(Relay { host, port: settings.port, client: settings.client_name(), outbound, protection })
    }

    /// Connects, over TLS if configured, and sends EHLO: once, and once more after STARTTLS, as RFC 3207 section 4.2 demands.
    pub(super) async fn open(
        &self,
        times: &Times,
        deadline: Instant,
    ) -> Result<(Wire<Box<dyn Transport>>, Features), Failure> {
        let stream = self.dial(times, deadline).await?;
        let stream: Box<dyn Transport> = match &self.protection {
            Protection::None => Box::new(stream),
            Protection::Tls(connector, name) => {
                Box::new(handshake(stream, connector, name, times, deadline).await?)
            }
            Protection::StartTls(connector, name) => {
                let stream = self.start_tls(stream, times, deadline).await?;
                let stream = handshake(stream, connector, name, times, deadline).await?;
                let mut wire = Wire::new(Box::new(stream) as Box<dyn Transport>, false, deadline);
                let features = hello(&mut wire, &self.client, times, true).await?;
                return Ok((wire, features));
            }
        };
        let mut wire = Wire::new(stream, true, deadline);
        greeting(&mut wire, times).await?;
        let features = hello(&mut wire, &self.client, times, false).await?;
        Ok((wire, features))
    }

    /// Speaks unencrypted up to STARTTLS (RFC 3207).
    async fn start_tls(
        &self,
        stream: TcpStream,
        times: &Times,
        deadline: Instant,
    ) -> Result<TcpStream, Failure> {
        let mut wire = Wire::new(stream, true, deadline);
        greeting(&mut wire, times).await?;
        let features = hello(&mut wire, &self.client, times, false).await?;
        if !features.starttls {
            return Err(broken(Stage::Connect, &"the server offers no STARTTLS"));
        }
        let reply = wire.command(Stage::Connect, "STARTTLS\r\n", times.hello).await?;
        reply.success(Stage::Connect)?;
        wire.into_stream()
    }

    pub(crate) fn describe(&self) -> String {
        let protection = match self.protection {
            Protection::None => "without TLS",
            Protection::StartTls(..) => "over TLS after STARTTLS",
            Protection::Tls(..) => "over TLS",
        };
        format!("{}:{} {protection}", self.host, self.port)
    }

    /// Opens a TCP connection to the first address that responds. It turns Nagle's algorithm off, because the last piece of an email would
    /// otherwise wait for an ACK.
    async fn dial(&self, times: &Times, deadline: Instant) -> Result<TcpStream, Failure> {
        let stage = Stage::Connect;
        let resolving = within(times.connect, self.outbound.resolve(&self.host, self.port));
        let addresses = match resolving.await {
            Some(Ok(addresses)) => addresses,
            Some(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(Failure::Forbidden { cause: error.to_string() });
            }
            Some(Err(error)) => return Err(broken(stage, &error)),
            None => return Err(broken(stage, &"the name of the server could not be resolved in time")),
        };
        let mut last = broken(stage, &"the host has no address");
        for address in addresses {
            let limit = times.connect.min(deadline.saturating_duration_since(Instant::now()));
            let connecting = async {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true).map(|()| stream)
            };
            match within(limit, connecting).await {
                Some(Ok(stream)) => return Ok(stream),
                Some(Err(error)) => last = broken(stage, &error),
                None => last = Failure::TimedOut { stage },
            }
        }
        Err(last)
    }
}

async fn handshake(
    stream: TcpStream,
    connector: &TlsConnector,
    name: &ServerName<'static>,
    times: &Times,
    deadline: Instant,
) -> Result<impl Transport + use<>, Failure> {
    let limit = times.handshake.min(deadline.saturating_duration_since(Instant::now()));
    match within(limit, connector.connect(name.clone(), stream)).await {
        Some(Ok(stream)) => Ok(stream),
        Some(Err(error)) => Err(broken(Stage::Connect, &error)),
        None => Err(Failure::TimedOut { stage: Stage::Connect }),
    }
}
