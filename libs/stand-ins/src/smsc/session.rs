use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use rusmpp::pdus::{BindTransceiver, BindTransceiverResp, SubmitSm, SubmitSmResp};
use rusmpp::tokio_codec::CommandCodec;
use rusmpp::types::COctetString;
use rusmpp::{Command, CommandId, CommandStatus, Pdu};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::codec::Framed;

use super::script::{Reaction, Stage};
use super::text::Part;
use super::{Accepted, Outgoing, Smsc, SmscSettings};
use crate::outbox::Summary;
use crate::twilio::random;

const OK: u32 = 0;
const INVALID_BIND_STATE: u32 = 0x04;
const ALREADY_BOUND: u32 = 0x05;
const SYSTEM_ERROR: u32 = 0x08;
const INVALID_PASSWORD: u32 = 0x0e;
const INVALID_SYSTEM_ID: u32 = 0x0f;
const THROTTLED: u32 = 0x58;
/// Number that does not exist. Messages to this number are refused.
const DEAD: &str = "+15005550001";
/// Numbers whose messages are not delivered, with the state and the error code of their receipts.
const MAGIC: [(&str, &str, &str); 3] = [
    ("+15005550003", "EXPIRED", "000"),
    ("+15005550005", "UNDELIV", "001"),
    ("+15005550008", "REJECTD", "069"),
];
/// Maximum time without data from a client that has not bound.
const BOUND_WITHIN: Duration = Duration::from_secs(60);
/// A bound client is disconnected after this time without data, or after three intervals of enquire_link if that is
/// longer.
const SILENT_AT_MOST: Duration = Duration::from_secs(10);
/// Maximum number of unconfirmed receipts per session.
const RECEIPTS: usize = 10;
const AGAIN: Duration = Duration::from_millis(100);

struct Session<'a, S> {
    framed: Framed<S, CommandCodec>,
    centre: &'a Smsc,
    sequence: u32,
    is_bound: bool,
    unanswered: usize,
    receipts: HashMap<u32, Outgoing>,
    heard: Instant,
}

/// True if the session continues after a command, false if it ends.
type Next = io::Result<bool>;

pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(stream: S, centre: &Smsc) -> io::Result<()> {
    let mut session = Session {
        framed: Framed::new(stream, CommandCodec::new().with_max_length(128 * 1024)),
        centre,
        sequence: 0,
        is_bound: false,
        unanswered: 0,
        receipts: HashMap::new(),
        heard: Instant::now(),
    };
    let talked = session.converse().await;
    if session.is_bound {
        centre.counts.bound.fetch_sub(1, Ordering::Relaxed);
    }
    // Receipts that the client has not confirmed are sent again over another session.
    centre.lock().receipts.extend(session.receipts.drain().map(|(_, receipt)| receipt));
    centre.news.notify_one();
    talked
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<'_, S> {
    async fn converse(&mut self) -> io::Result<()> {
        loop {
            let has_room = self.is_bound && self.receipts.len() < RECEIPTS;
            let patience = if self.is_bound { self.centre.settings.enquire_link } else { BOUND_WITHIN };
            tokio::select! {
                command = timeout(patience, self.framed.next()) => match command {
                    Ok(Some(Ok(command))) => {
                        self.heard = Instant::now();
                        if !self.handle_command(command).await? {
                            return Ok(());
                        }
                    }
                    Ok(Some(Err(_)) | None) => return Ok(()),
                    Err(_) if self.is_bound && self.heard.elapsed() < SILENT_AT_MOST.max(3 * patience) => self.request(Pdu::EnquireLink).await?,
                    Err(_) => return Ok(()),
                },
                () = self.centre.news.notified(), if has_room => {}
            }
            self.send_receipts().await?;
        }
    }

    async fn handle_command(&mut self, command: Command) -> Next {
        let sequence = command.sequence_number();
        match (command.id(), command.pdu()) {
            (CommandId::BindTransceiver, Some(Pdu::BindTransceiver(bind))) => {
                let bind = bind.clone();
                self.bind(sequence, &bind).await
            }
            (CommandId::EnquireLink, _) => self.enquire(sequence).await,
            (CommandId::SubmitSm, Some(Pdu::SubmitSm(submission))) if self.is_bound => {
                let submission = submission.clone();
                self.submit(sequence, &submission).await
            }
            (CommandId::SubmitSm, _) => {
                self.respond(sequence, INVALID_BIND_STATE, Pdu::SubmitSmResp(SubmitSmResp::default()))
                    .await?;
                Ok(true)
            }
            (CommandId::DeliverSmResp | CommandId::DataSmResp, _) => {
                self.receipt_answered(sequence, u32::from(command.status())).await;
                Ok(true)
            }
            (CommandId::Unbind, _) => {
                count(&self.centre.counts.unbinds);
                self.respond(sequence, OK, Pdu::UnbindResp).await?;
                Ok(false)
            }
            (CommandId::EnquireLinkResp, _) => {
                count(&self.centre.counts.enquiries_answered);
                Ok(true)
            }
            (id, _) if id.is_response() => Ok(true),
            _ => {
                self.respond(sequence, 0x03, Pdu::GenericNack).await?;
                Ok(true)
            }
        }
    }

    async fn bind(&mut self, sequence: u32, bind: &BindTransceiver) -> Next {
        let settings = &self.centre.settings;
        let status = match self.centre.script.take((Stage::Bind, "", 1)) {
            Some(Reaction::CutBefore | Reaction::CutAfter) => return Ok(false),
            Some(Reaction::Stall) => return Ok(true),
            Some(Reaction::Status(status) | Reaction::Nack(status)) => status,
            None if self.is_bound => ALREADY_BOUND,
            None if bind.system_id.to_string() != settings.system_id => INVALID_SYSTEM_ID,
            None if bind.password.to_string() != settings.password => INVALID_PASSWORD,
            None if u8::from(bind.interface_version) != 0x34 => SYSTEM_ERROR,
            None => OK,
        };
        if status == OK {
            self.is_bound = true;
            count(&self.centre.counts.binds);
            count(&self.centre.counts.bound);
        }
        let name = COctetString::from_vec(b"stand-in\0".to_vec()).unwrap_or_default();
        let answer = BindTransceiverResp::builder().system_id(name).build();
        self.respond(sequence, status, Pdu::BindTransceiverResp(answer)).await?;
        Ok(status == OK)
    }

    async fn enquire(&mut self, sequence: u32) -> Next {
        count(&self.centre.counts.enquiries);
        match self.centre.script.take((Stage::EnquireLink, "", 1)) {
            Some(Reaction::CutBefore | Reaction::CutAfter) => return Ok(false),
            Some(Reaction::Stall) => {}
            Some(Reaction::Status(status) | Reaction::Nack(status)) => {
                self.respond(sequence, status, Pdu::GenericNack).await?;
            }
            None => self.respond(sequence, OK, Pdu::EnquireLinkResp).await?,
        }
        Ok(true)
    }

    async fn submit(&mut self, sequence: u32, submission: &SubmitSm) -> Next {
        let counts = &self.centre.counts;
        count(&counts.submissions);
        counts.most_unanswered.fetch_max(self.unanswered + 1, Ordering::Relaxed);
        if self.unanswered >= self.centre.settings.window {
            self.refuse(sequence, THROTTLED).await?;
            return Ok(true);
        }
        let part = match Part::read(submission) {
            Ok(part) => part,
            Err(status) => {
                self.refuse(sequence, status).await?;
                return Ok(true);
            }
        };
        let reaction = self.centre.script.take((Stage::Submit, &part.to, part.number));
        match reaction {
            Some(Reaction::Status(status)) => self.refuse(sequence, status).await?,
            Some(Reaction::Nack(status)) => self.respond(sequence, status, Pdu::GenericNack).await?,
            Some(Reaction::CutBefore) => return Ok(false),
            Some(Reaction::Stall) => self.unanswered += 1,
            None if part.to == DEAD => self.refuse(sequence, 0x0b).await?,
            Some(Reaction::CutAfter) | None => {
                let wants_receipt = u8::from(submission.registered_delivery) & 0x03 == 0x01;
                let Some(message_id) = self.take(part, submission.short_message().as_ref(), wants_receipt)
                else {
                    self.refuse(sequence, SYSTEM_ERROR).await?;
                    return Ok(true);
                };
                if reaction.is_some() {
                    return Ok(false);
                }
                let id = COctetString::from_vec(format!("{message_id}\0").into_bytes()).unwrap_or_default();
                let answer = SubmitSmResp::builder().message_id(id).build();
                self.respond(sequence, OK, Pdu::SubmitSmResp(answer)).await?;
            }
        }
        Ok(true)
    }

    async fn refuse(&mut self, sequence: u32, status: u32) -> io::Result<()> {
        self.respond(sequence, status, Pdu::SubmitSmResp(SubmitSmResp::default())).await
    }

    /// Stores a part, and captures the message if all its parts have arrived. Returns the id of the part, or None if
    /// the message cannot be captured.
    fn take(&self, part: Part, raw: &[u8], wants_receipt: bool) -> Option<String> {
        let id = random::hex::<6>();
        let Part { from, to, text, of, number } = part;
        let whole = match of {
            None => Some(text.clone()),
            Some((reference, total)) => {
                let key = (from.clone(), to.clone(), reference, total);
                let mut state = self.centre.lock();
                let parts = state.parts.entry(key.clone()).or_insert_with(|| vec![None; usize::from(total)]);
                if let Some(place) = parts.get_mut(usize::from(number) - 1) {
                    *place = Some(text.clone());
                }
                let whole = parts.iter().cloned().collect::<Option<Vec<_>>>().map(|parts| parts.concat());
                if whole.is_some() {
                    state.parts.remove(&key);
                }
                whole
            }
        };
        if let Some(text) = whole {
            let summary = Summary { text: Some(text), ..Summary::default() };
            self.centre.outbox.keep("sms", &from, std::slice::from_ref(&to), raw.to_vec(), summary).ok()?;
        }
        let (_, state, error) =
            MAGIC.iter().find(|(magic, ..)| *magic == to).unwrap_or(&("", "DELIVRD", "000"));
        self.centre.lock().messages.insert(id.clone(), Accepted { from, to, text });
        if wants_receipt && self.centre.settings.receipts {
            self.centre.report(&id, state, error);
        }
        Some(id)
    }

    async fn send_receipts(&mut self) -> io::Result<()> {
        while self.is_bound && self.receipts.len() < RECEIPTS {
            let Some(receipt) = self.centre.lock().receipts.pop_front() else { return Ok(()) };
            let SmscSettings { receipt_form, receipt_ids, .. } = self.centre.settings;
            let pdu = match &receipt {
                Outgoing::Receipt(receipt) => Pdu::DeliverSm(receipt.pdu(receipt_form, receipt_ids)),
                Outgoing::Person(message) => message.pdu(),
            };
            self.receipts.insert(self.sequence + 1, receipt);
            self.request(pdu).await?;
        }
        Ok(())
    }

    async fn receipt_answered(&mut self, sequence: u32, status: u32) {
        let Some(receipt) = self.receipts.remove(&sequence) else { return };
        match (status, &receipt) {
            (OK, Outgoing::Receipt(_)) => count(&self.centre.counts.receipts_taken),
            (OK, Outgoing::Person(_)) => count(&self.centre.counts.person_messages_taken),
            _ => {
                sleep(AGAIN).await;
                self.centre.lock().receipts.push_back(receipt);
            }
        }
    }

    async fn request(&mut self, pdu: Pdu) -> io::Result<()> {
        self.sequence += 1;
        self.write(Command::new(CommandStatus::EsmeRok, self.sequence, pdu)).await
    }

    async fn respond(&mut self, sequence: u32, status: u32, pdu: Pdu) -> io::Result<()> {
        self.write(Command::new(CommandStatus::from(status), sequence, pdu)).await
    }

    async fn write(&mut self, command: Command) -> io::Result<()> {
        self.framed.send(command).await.map_err(io::Error::other)
    }
}

fn count(counter: &AtomicUsize) {
    counter.fetch_add(1, Ordering::Relaxed);
}
