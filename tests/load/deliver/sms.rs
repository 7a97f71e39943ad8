//! SMS over Twilio's API and over SMPP. The bare SMPP client has up to [`AT_ONCE`](super::AT_ONCE) unanswered submissions.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::content::{Content, SmsContent};
use domain::{Channel, UserNumber};
use futures_util::{SinkExt, StreamExt};
use reqwest::Client;
use rusmpp::pdus::{BindTransceiver, SubmitSm};
use rusmpp::tokio_codec::CommandCodec;
use rusmpp::types::{COctetString, OctetString};
use rusmpp::values::{EsmClass, InterfaceVersion, Npi, Ton};
use rusmpp::{Command, CommandStatus, Pdu};
use stand_ins::outbox::{Capture, Outbox};
use stand_ins::smsc::{SmscSettings, SmscStandIn};
use stand_ins::twilio::{TwilioSettings, TwilioStandIn};
use tokio::net::TcpStream;
use tokio_util::codec::Framed;

use super::http::{Http, repeat};
use super::skeleton::Reports;
use super::{AT_ONCE, BareClient, Subject, separate_secrets};
use crate::role::Role;

const PEOPLE: i64 = 1_000;
const TEXT: &str = "Order 4711 left our house this morning and arrives tomorrow before noon.";

fn targets() -> Vec<(UserNumber, String)> {
    (1..=PEOPLE).map(|number| (UserNumber(number), format!("+1415{number:07}"))).collect()
}

fn content() -> Content {
    Content::Sms(SmsContent { text: TEXT.to_owned(), ..SmsContent::default() })
}

pub(super) async fn twilio() -> Subject {
    let outbox = Outbox::in_memory();
    let settings = TwilioSettings { reports: false, ..TwilioSettings::default() };
    let stand_in = TwilioStandIn::start(settings, outbox.clone()).await.unwrap();
    let sid = &stand_in.settings().account_sid;
    let url = format!("{}/2010-04-01/Accounts/{sid}/Messages.json", stand_in.url());
    let again = move |client: &Client, message: &Capture| {
        repeat(client.post(&url).body(message.raw.clone()), message, &["authorization", "content-type"])
    };
    Subject {
        name: "SMS: Twilio",
        channel: Channel::Sms,
        role: Role::Sms,
        kind: "twilio",
        settings: separate_secrets(stand_in.provider_settings(), &["authToken"]),
        environment: Vec::new(),
        targets: targets(),
        content: content(),
        outbox,
        bare: Box::new(Http::new(Client::new(), stand_in, again)),
    }
}

pub(super) async fn smpp() -> Subject {
    let outbox = Outbox::in_memory();
    let settings = SmscSettings { receipts: false, ..SmscSettings::default() };
    let stand_in = SmscStandIn::start(settings, outbox.clone()).await.unwrap();
    let mut settings = stand_in.provider_settings();
    settings["window"] = AT_ONCE.into();
    Subject {
        name: "SMS: SMPP",
        channel: Channel::Sms,
        role: Role::Sms,
        kind: "smpp",
        settings: separate_secrets(settings, &["password"]),
        environment: Vec::new(),
        targets: targets(),
        content: content(),
        outbox,
        bare: Box::new(Rusmpp(stand_in)),
    }
}

/// One SMPP session with the codec of the crate rusmpp.
struct Rusmpp(SmscStandIn);

impl BareClient for Rusmpp {
    fn send<'a>(
        &'a self,
        messages: &'a [Arc<Capture>],
        reports: Reports,
    ) -> Pin<Box<dyn Future<Output = Duration> + 'a>> {
        Box::pin(async move {
            let SmscSettings { system_id, password, .. } = self.0.settings();
            let mut session = bind(self.0.address(), system_id, password).await;
            let began = Instant::now();
            submit_all(&mut session, messages, &reports).await;
            began.elapsed()
        })
    }
}

/// Sequence number of the first submission. The bind has number 1.
const FIRST: u32 = 2;

type Session = Framed<TcpStream, CommandCodec>;

async fn bind(address: SocketAddr, system_id: &str, password: &str) -> Session {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let mut session = Framed::new(stream, CommandCodec::new());
    let bind = BindTransceiver::builder()
        .system_id(text(system_id))
        .password(text(password))
        .interface_version(InterfaceVersion::Smpp3_4)
        .build();
    let command = Command::new(CommandStatus::EsmeRok, 1, Pdu::BindTransceiver(bind));
    session.send(command).await.unwrap();
    let answer = session.next().await.unwrap().unwrap();
    assert_eq!(answer.status(), CommandStatus::EsmeRok);
    session
}

async fn submit_all(session: &mut Session, messages: &[Arc<Capture>], reports: &Reports) {
    let mut unanswered = HashSet::new();
    for (sequence, message) in (FIRST..).zip(messages) {
        session
            .feed(Command::new(CommandStatus::EsmeRok, sequence, Pdu::SubmitSm(submission(message))))
            .await
            .unwrap();
        unanswered.insert(sequence);
        while unanswered.len() >= AT_ONCE {
            reports.accepted(answered(session, &mut unanswered).await).await;
        }
    }
    while !unanswered.is_empty() {
        reports.accepted(answered(session, &mut unanswered).await).await;
    }
}

/// Waits for the answer to one submission, and returns the index of its message.
async fn answered(session: &mut Session, unanswered: &mut HashSet<u32>) -> usize {
    SinkExt::<Command>::flush(session).await.unwrap();
    let answer = session.next().await.unwrap().unwrap();
    assert_eq!(answer.status(), CommandStatus::EsmeRok, "{answer:?}");
    assert!(unanswered.remove(&answer.sequence_number()));
    usize::try_from(answer.sequence_number() - FIRST).unwrap()
}

fn submission(message: &Capture) -> SubmitSm {
    let digits = |number: &str| text(number.trim_start_matches('+'));
    SubmitSm::builder()
        .source_addr_ton(Ton::International)
        .source_addr_npi(Npi::Isdn)
        .source_addr(digits(&message.from))
        .dest_addr_ton(Ton::International)
        .dest_addr_npi(Npi::Isdn)
        .destination_addr(digits(&message.to[0]))
        .esm_class(EsmClass::from(0))
        .short_message(OctetString::from_vec(TEXT.as_bytes().to_vec()).unwrap())
        .build()
}

fn text<const MIN: usize, const MAX: usize>(text: &str) -> COctetString<MIN, MAX> {
    COctetString::from_vec(format!("{text}\0").into_bytes()).unwrap()
}
