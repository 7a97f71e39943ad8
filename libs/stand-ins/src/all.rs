//! All provider stand-ins of a local installation, with one outbox.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::apns::{self, ApnsSettings, ApnsStandIn};
use crate::fcm::{self, FcmStandIn};
use crate::http::HttpSettings;
use crate::outbox::faults::FaultPanel;
use crate::outbox::{DEFAULT_KEEP, Outbox, OutboxServer, private};
use crate::push_service::PushServiceStandIn;
use crate::sms_http::SmsHttpStandIn;
use crate::smsc::{SmscSettings, SmscStandIn};
use crate::smtp::{SmtpSettings, SmtpStandIn};
use crate::twilio::{TwilioSettings, TwilioStandIn};

/// Ports of the stand-ins; 0 for a free port.
#[derive(Clone, Copy, Debug, Default)]
pub struct StandInPorts {
    pub smtp: u16,
    pub apns: u16,
    pub fcm: u16,
    /// Port of the push service for browsers.
    pub push_service: u16,
    pub twilio: u16,
    pub sms_http: u16,
    pub smsc: u16,
    pub outbox: u16,
}

#[derive(Clone, Debug)]
pub struct StandInSettings {
    /// Directory for captures and keys.
    pub directory: PathBuf,
    pub ports: StandInPorts,
    /// Maximum number of captures. If there are more, the oldest are removed.
    pub keep: usize,
}

impl StandInSettings {
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        StandInSettings { directory: directory.into(), ports: StandInPorts::default(), keep: DEFAULT_KEEP }
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
    /// Starts every stand-in. The outbox also contains the captures of earlier runs in the same directory. The keys of APNs and FCM are kept
    /// there too, so that the settings of providers stay valid.
    pub async fn start(settings: &StandInSettings) -> io::Result<Self> {
        let StandInSettings { directory, ports, keep } = settings;
        let outbox = Outbox::in_directory(directory, *keep)?;
        let key_of_apns = kept_key(&directory.join("apns.pem"), apns::new_key)?;
        let key_of_fcm = kept_key(&directory.join("fcm.pem"), fcm::new_key)?;
        let apns = ApnsSettings { port: ports.apns, key: Some(key_of_apns), ..ApnsSettings::default() };
        let push_service = HttpSettings { port: ports.push_service, ..HttpSettings::default() };
        let smtp = SmtpSettings { port: ports.smtp, ..SmtpSettings::default() };
        let twilio = TwilioSettings { port: ports.twilio, ..TwilioSettings::default() };
        let smsc = SmscSettings { port: ports.smsc, ..SmscSettings::default() };
        let smtp = SmtpStandIn::start(smtp, outbox.clone()).await?;
        let apns = ApnsStandIn::start(apns, outbox.clone()).await?;
        let fcm = FcmStandIn::start_with_key(ports.fcm, &key_of_fcm, outbox.clone()).await?;
        let push_service = PushServiceStandIn::start(push_service, outbox.clone()).await?;
        let twilio = TwilioStandIn::start(twilio, outbox.clone()).await?;
        let sms_http = SmsHttpStandIn::start(ports.sms_http, outbox.clone()).await?;
        let smsc = SmscStandIn::start(smsc, outbox.clone()).await?;
        let faults = FaultPanel {
            smtp: smtp.shared_script(),
            web_push: push_service.shared_script(),
            apns: apns.shared_script(),
            fcm: fcm.shared_script(),
            twilio: twilio.shared_script(),
            smsc: smsc.shared_script(),
        };
        let outbox = OutboxServer::start(ports.outbox, outbox, faults).await?;
        Ok(StandIns { smtp, apns, fcm, push_service, twilio, sms_http, smsc, outbox })
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

/// Reads the PEM file at `path`, or writes a new key to it.
fn kept_key(path: &Path, new: fn() -> io::Result<String>) -> io::Result<String> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let key = new()?;
            private().truncate(true).open(path)?.write_all(key.as_bytes())?;
            Ok(key)
        }
        read => read,
    }
}
