//! All provider stand-ins of a local installation, with one outbox.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::apns::{ApnsSettings, ApnsStandIn};
use crate::fcm::FcmStandIn;
use crate::http::HttpSettings;
use crate::outbox::{DEFAULT_KEEP, Outbox, OutboxServer};
use crate::push_service::PushServiceStandIn;
use crate::sms_http::SmsHttpStandIn;
use crate::smsc::{SmscSettings, SmscStandIn};
use crate::smtp::{SmtpSettings, SmtpStandIn};
use crate::twilio::{TwilioSettings, TwilioStandIn};

#[derive(Clone, Debug)]
pub struct StandInSettings {
    pub directory: PathBuf,
    /// Port of the SMTP server; 0 for a free port.
    pub smtp_port: u16,
    /// Port of the push service for browsers; 0 for a free port.
    pub push_service_port: u16,
    /// Port of the outbox; 0 for a free port.
    pub outbox_port: u16,
    /// Maximum number of captures. If there are more, the oldest are removed.
    pub keep: usize,
}

impl StandInSettings {
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        StandInSettings {
            directory: directory.into(),
            smtp_port: 0,
            push_service_port: 0,
            outbox_port: 0,
            keep: DEFAULT_KEEP,
        }
    }
}

#[derive(Debug)]
pub struct StandIns {
    smtp: SmtpStandIn,
    apns: ApnsStandIn,
    fcm: FcmStandIn,
    push_service: PushServiceStandIn,
    twilio: TwilioStandIn,
    sms_http: SmsHttpStandIn,
    smsc: SmscStandIn,
    outbox: OutboxServer,
}

impl StandIns {
    /// Starts every stand-in. The outbox also contains the captures of earlier runs in the same directory.
    pub async fn start(settings: &StandInSettings) -> io::Result<Self> {
        let outbox = Outbox::in_directory(&settings.directory, settings.keep)?;
        let smtp_settings = SmtpSettings { port: settings.smtp_port, ..SmtpSettings::default() };
        let push_service = HttpSettings { port: settings.push_service_port, ..HttpSettings::default() };
        Ok(StandIns {
            smtp: SmtpStandIn::start(smtp_settings, outbox.clone()).await?,
            apns: ApnsStandIn::start(ApnsSettings::default(), outbox.clone()).await?,
            fcm: FcmStandIn::start(0, outbox.clone()).await?,
            push_service: PushServiceStandIn::start(push_service, outbox.clone()).await?,
            twilio: TwilioStandIn::start(TwilioSettings::default(), outbox.clone()).await?,
            sms_http: SmsHttpStandIn::start(0, outbox.clone()).await?,
            smsc: SmscStandIn::start(SmscSettings::default(), outbox.clone()).await?,
            outbox: OutboxServer::start(settings.outbox_port, outbox).await?,
        })
    }

    #[must_use]
    pub fn smtp_address(&self) -> SocketAddr {
        self.smtp.address()
    }

    #[must_use]
    pub fn apns(&self) -> &ApnsStandIn {
        &self.apns
    }

    #[must_use]
    pub fn fcm(&self) -> &FcmStandIn {
        &self.fcm
    }

    #[must_use]
    pub fn push_service_url(&self) -> String {
        self.push_service.url()
    }

    #[must_use]
    pub fn twilio(&self) -> &TwilioStandIn {
        &self.twilio
    }

    #[must_use]
    pub fn sms_http(&self) -> &SmsHttpStandIn {
        &self.sms_http
    }

    #[must_use]
    pub fn smsc(&self) -> &SmscStandIn {
        &self.smsc
    }

    #[must_use]
    pub fn outbox_url(&self) -> String {
        self.outbox.url()
    }

    pub async fn stop(self) {
        self.smtp.stop().await;
        self.apns.stop().await;
        self.fcm.stop().await;
        self.push_service.stop().await;
        self.twilio.stop().await;
        self.sms_http.stop().await;
        self.smsc.stop().await;
        self.outbox.stop().await;
    }
}
