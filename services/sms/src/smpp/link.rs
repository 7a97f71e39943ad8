use std::collections::HashMap;
use std::pin::Pin;
use std::time::Duration;

use domain::sms::keyword::Keyword;
use domain::{Answer, Outcome};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use rusmpp::pdus::{BindTransceiver, DataSmResp, DeliverSmResp, SubmitSm};
use rusmpp::types::COctetString;
use rusmpp::values::InterfaceVersion;
use rusmpp::{Command, CommandId, CommandStatus, Pdu};
use secrecy::ExposeSecret as _;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::codec::Framed;

use super::dial::Connection;
use super::incoming::IncomingMessage;
use super::pdu::{Fields, PduCodec, ReceivedPdu};
use super::receipt::DeliveryReceipt;
use super::settings::SmppSettings;
use super::status;
use crate::recorder::{Post, RecordResult};

const WRITE_LIMIT: Duration = Duration::from_secs(10);
const UNBIND_LIMIT: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(250);
/// Limit of concurrent recordings. Further receipts and keywords are refused; the message centre sends them again later.
const MOST_RECORDINGS: usize = 256;
/// Largest sequence number (section 5.1.4). The number after it is 1.
const LAST_SEQUENCE: u32 = 0x7fff_ffff;

pub(super) struct SubmitRequest {
    pub(super) submission: SubmitSm,
    /// Receives `Ok` right before the submission is written, or an answer with the reason why it is not written.
    pub(super) taken: oneshot::Sender<WriteResult>,
    pub(super) reply: oneshot::Sender<Reply>,
}

pub(super) type WriteResult = Result<(), Answer>;

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u32,
    pub(crate) message_id: Option<String>,
}

pub(super) enum End {
    Done,
    Broken(String),
}

/// Request of the message centre that waits for its response until a receipt or keyword is recorded.
#[derive(Clone, Copy)]
struct Unacknowledged {
    sequence: u32,
    is_data_sm: bool,
}

type Recording = Pin<Box<dyn Future<Output = (Unacknowledged, RecordResult)> + Send>>;

pub(super) struct Link<'a> {
    framed: Framed<Box<dyn Connection>, PduCodec>,
    settings: &'a SmppSettings,
    post: &'a Post,
    sequence: u32,
    waiting: HashMap<u32, oneshot::Sender<Reply>>,
    recordings: FuturesUnordered<Recording>,
    heard: Instant,
    enquiry: Option<u32>,
    pub(super) was_used: bool,
}

impl<'a> Link<'a> {
    /// Binds as a transceiver.
    pub(super) async fn bind(
        stream: Box<dyn Connection>,
        settings: &'a SmppSettings,
        post: &'a Post,
    ) -> Result<Link<'a>, Answer> {
        let mut link = Link {
            framed: Framed::new(stream, PduCodec::default()),
            settings,
            post,
            sequence: 0,
            waiting: HashMap::new(),
            recordings: FuturesUnordered::new(),
            heard: Instant::now(),
            enquiry: None,
            was_used: false,
        };
        let bind = bind_transceiver(settings).ok_or_else(|| {
            Answer::new(Outcome::PauseProvider, "settings", "the login is not valid in SMPP")
        })?;
        let broken = |cause: String| Answer::new(Outcome::RETRY, "connect", cause);
        let sequence = link.request(bind).await.map_err(broken)?;
        loop {
            let answer = link.read().await.map_err(broken)?;
            if !answer.id.is_response() && answer.id != CommandId::GenericNack {
                continue;
            }
            return match answer.status {
                0 if answer.sequence == sequence => Ok(link),
                0 => Err(broken("the answer to the bind has a wrong sequence number".to_owned())),
                code => Err(Answer::new(
                    status::outcome_of_bind(code),
                    status::name(code),
                    "the bind was refused",
                )),
            };
        }
    }

    pub(super) async fn serve(&mut self, requests: &mut mpsc::Receiver<SubmitRequest>) -> End {
        match self.exchange(requests).await {
            Ok(()) => {
                // All submissions are answered, so the result of the unbind does not matter.
                if timeout(UNBIND_LIMIT, self.unbind()).await.is_err() {
                    tracing::debug!("the message centre did not answer the unbind in time");
                }
                End::Done
            }
            Err(cause) => End::Broken(cause),
        }
    }

    async fn exchange(&mut self, requests: &mut mpsc::Receiver<SubmitRequest>) -> Result<(), String> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_open = true;
        while is_open || !self.waiting.is_empty() {
            let has_room = is_open && self.waiting.len() < self.settings.window;
            tokio::select! {
                incoming = self.framed.next() => {
                    let pdu = incoming.ok_or_else(closed)?.map_err(|error| error.to_string())?;
                    self.handle(pdu).await?;
                }
                request = requests.recv(), if has_room => match request {
                    Some(request) => self.submit(request).await?,
                    None => is_open = false,
                },
                Some((request, recorded)) = self.recordings.next(), if !self.recordings.is_empty() => {
                    self.acknowledge(request, recorded).await?;
                }
                _ = ticks.tick() => self.check_liveness().await?,
            }
        }
        // Receipts that are not recorded yet stay unacknowledged, so the message centre repeats them in the next session.
        while let Some(Some((request, recorded))) = self.recordings.next().now_or_never() {
            self.acknowledge(request, recorded).await?;
        }
        Ok(())
    }

    async fn submit(&mut self, request: SubmitRequest) -> Result<(), String> {
        let SubmitRequest { submission, taken, reply } = request;
        // The submitter may have timed out and reported the message as not sent. Then the message must not be written.
        if taken.send(Ok(())).is_err() {
            return Ok(());
        }
        let sequence = self.next_sequence();
        self.waiting.insert(sequence, reply);
        self.was_used = true;
        self.write(Command::new(CommandStatus::EsmeRok, sequence, Pdu::SubmitSm(submission))).await
    }

    async fn handle(&mut self, pdu: ReceivedPdu) -> Result<(), String> {
        self.heard = Instant::now();
        let ReceivedPdu { id, status, sequence, body } = pdu;
        match id {
            CommandId::SubmitSmResp => {
                let message_id = Fields::of(&body).text();
                self.answer(sequence, status, Some(message_id).filter(|id| !id.is_empty()))
            }
            CommandId::GenericNack => self.answer(sequence, status.max(1), None),
            CommandId::EnquireLinkResp => {
                self.enquiry = self.enquiry.filter(|asked| *asked != sequence);
                Ok(())
            }
            CommandId::EnquireLink => {
                self.respond(sequence, CommandStatus::EsmeRok, Pdu::EnquireLinkResp).await
            }
            CommandId::DeliverSm => {
                let request = Unacknowledged { sequence, is_data_sm: false };
                self.receive(request, &IncomingMessage::of_deliver_sm(&body)).await
            }
            CommandId::DataSm => {
                let request = Unacknowledged { sequence, is_data_sm: true };
                self.receive(request, &IncomingMessage::of_data_sm(&body)).await
            }
            CommandId::Unbind => {
                self.respond(sequence, CommandStatus::EsmeRok, Pdu::UnbindResp).await?;
                Err("the message centre unbound".to_owned())
            }
            CommandId::AlertNotification => Ok(()),
            id if id.is_response() => Ok(()),
            _ => self.respond(sequence, CommandStatus::EsmeRinvcmdid, Pdu::GenericNack).await,
        }
    }

    /// Passes a response to the submitter. Returns an error if the message centre considers the session unbound. The
    /// error ends the connection, and the session binds a new one.
    fn answer(&mut self, sequence: u32, status: u32, message_id: Option<String>) -> Result<(), String> {
        let Some(reply) = self.waiting.remove(&sequence) else {
            tracing::debug!("a response arrived after its timeout; ignoring it");
            return Ok(());
        };
        // A submitter that no longer waits has reported an unknown outcome. A receipt may still correct it.
        reply.send(Reply { status, message_id }).ok();
        match CommandStatus::from(status) {
            CommandStatus::EsmeRinvbndsts => {
                Err("the message centre considers this session unbound".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Acknowledges a receipt with a final state, or a keyword, only after it is recorded, so that the message centre repeats it if
    /// recording fails. Any other message is acknowledged at once.
    async fn receive(&mut self, request: Unacknowledged, message: &IncomingMessage) -> Result<(), String> {
        let recording = if DeliveryReceipt::is_receipt(message) {
            self.record_receipt(message)
        } else {
            self.record_keyword(message)
        };
        let Some(recording) = recording else {
            return self.acknowledge(request, RecordResult::Done).await;
        };
        if self.recordings.len() >= MOST_RECORDINGS {
            return self.acknowledge(request, RecordResult::Later).await;
        }
        self.recordings.push(Box::pin(async move { (request, recording.await) }));
        Ok(())
    }

    /// Returns None if the receipt has no final state, or cannot be read.
    fn record_receipt(&self, message: &IncomingMessage) -> Option<BoxFuture<'static, RecordResult>> {
        let Some(receipt) = DeliveryReceipt::read(message) else {
            self.post.unreadable_receipt();
            return None;
        };
        let answer = receipt.answer()?;
        Some(self.post.record(receipt, self.settings.receipt_ids, answer).boxed())
    }

    fn record_keyword(&self, message: &IncomingMessage) -> Option<BoxFuture<'static, RecordResult>> {
        if message.kind() != 0 {
            return None;
        }
        let number = message.sender(self.settings.country_code.as_deref());
        let of_text =
            |text: &String| Keyword::of(text, number.as_deref().unwrap_or_default(), &self.settings.keywords);
        let keyword = message.texts().iter().find_map(of_text)?;
        let Some(number) = number else {
            self.post.unknown_sender(keyword);
            return None;
        };
        Some(self.post.record_keyword(number, keyword).boxed())
    }

    async fn acknowledge(&mut self, request: Unacknowledged, recorded: RecordResult) -> Result<(), String> {
        let status = match recorded {
            RecordResult::Done => CommandStatus::EsmeRok,
            RecordResult::Later => CommandStatus::EsmeRxTAppn,
        };
        let response = if request.is_data_sm {
            Pdu::DataSmResp(DataSmResp::default())
        } else {
            Pdu::DeliverSmResp(DeliverSmResp::default())
        };
        self.respond(request.sequence, status, response).await
    }

    /// Removes submissions whose submitters timed out. Sends an enquire_link if no PDU has arrived for the interval
    /// `enquire_link`. Returns an error if none has arrived for twice that interval.
    async fn check_liveness(&mut self) -> Result<(), String> {
        self.waiting.retain(|_, reply| !reply.is_closed());
        let silent = self.heard.elapsed();
        match self.enquiry {
            Some(_) if silent >= 2 * self.settings.enquire_link => {
                Err("the message centre does not answer enquire_link".to_owned())
            }
            None if silent >= self.settings.enquire_link => {
                self.enquiry = Some(self.request(Pdu::EnquireLink).await?);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(super) async fn unbind(&mut self) -> Result<(), String> {
        let sequence = self.request(Pdu::Unbind).await?;
        loop {
            let answer = self.read().await?;
            if answer.id == CommandId::UnbindResp && answer.sequence == sequence {
                return Ok(());
            }
        }
    }

    async fn read(&mut self) -> Result<ReceivedPdu, String> {
        self.framed.next().await.ok_or_else(closed)?.map_err(|error| error.to_string())
    }

    async fn request(&mut self, pdu: impl Into<Pdu>) -> Result<u32, String> {
        let sequence = self.next_sequence();
        self.write(Command::new(CommandStatus::EsmeRok, sequence, pdu)).await?;
        Ok(sequence)
    }

    async fn respond(&mut self, sequence: u32, status: CommandStatus, pdu: Pdu) -> Result<(), String> {
        self.write(Command::new(status, sequence, pdu)).await
    }

    async fn write(&mut self, command: Command) -> Result<(), String> {
        match timeout(WRITE_LIMIT, self.framed.send(command)).await {
            Ok(written) => written.map_err(|error| error.to_string()),
            Err(_) => Err("the message centre does not read".to_owned()),
        }
    }

    fn next_sequence(&mut self) -> u32 {
        self.sequence = if self.sequence >= LAST_SEQUENCE { 1 } else { self.sequence + 1 };
        self.sequence
    }
}

fn closed() -> String {
    "the message centre closed the connection".to_owned()
}

fn bind_transceiver(settings: &SmppSettings) -> Option<BindTransceiver> {
    let bind = BindTransceiver::builder()
        .system_id(COctetString::from_bytes(terminated(&settings.system_id)).ok()?)
        .password(COctetString::from_bytes(terminated(settings.password.expose_secret())).ok()?)
        .system_type(COctetString::from_bytes(terminated(&settings.system_type)).ok()?)
        .interface_version(InterfaceVersion::Smpp3_4);
    Some(bind.build())
}

fn terminated(text: &str) -> bytes::Bytes {
    format!("{text}\0").into_bytes().into()
}

#[cfg(test)]
mod tests;
