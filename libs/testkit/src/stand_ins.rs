//! The provider stand-ins of a local installation, with one outbox for all.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::outbox::{DEFAULT_KEEP, Outbox, OutboxServer};
use crate::smtp::{SmtpSettings, SmtpStandIn};

/// Where the stand-ins listen, always on the loopback interface, and where they keep what they took.
#[derive(Clone, Debug)]
pub struct StandInSettings {
    /// Directory of the captures.
    pub directory: PathBuf,
    /// Port of the SMTP server, 0 for a free one.
    pub smtp_port: u16,
    /// Port of the outbox, 0 for a free one.
    pub outbox_port: u16,
    /// How many captures are kept, the newest.
    pub keep: usize,
}

impl StandInSettings {
    /// Free ports, and the usual number of captures.
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        StandInSettings { directory: directory.into(), smtp_port: 0, outbox_port: 0, keep: DEFAULT_KEEP }
    }
}

/// Running stand-ins.
#[derive(Debug)]
pub struct StandIns {
    smtp: SmtpStandIn,
    outbox: OutboxServer,
}

impl StandIns {
    /// Starts every stand-in; captures of an earlier run in the same directory are in the outbox again.
    ///
    /// # Errors
    /// When a port is taken, or the directory cannot be used.
    pub async fn start(settings: &StandInSettings) -> io::Result<Self> {
        let outbox = Outbox::in_directory(&settings.directory, settings.keep)?;
        let smtp_settings = SmtpSettings { port: settings.smtp_port, ..SmtpSettings::default() };
        Ok(StandIns {
            smtp: SmtpStandIn::start(smtp_settings, outbox.clone()).await?,
            outbox: OutboxServer::start(settings.outbox_port, outbox).await?,
        })
    }

    /// Address of the SMTP server.
    #[must_use]
    pub fn smtp_address(&self) -> SocketAddr {
        self.smtp.address()
    }

    /// Base of the outbox, such as `http://127.0.0.1:8025`.
    #[must_use]
    pub fn outbox_url(&self) -> String {
        self.outbox.url()
    }

    /// Closes every listener and connection.
    pub async fn stop(self) {
        self.smtp.stop().await;
        self.outbox.stop().await;
    }
}
