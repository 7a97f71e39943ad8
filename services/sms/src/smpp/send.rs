use std::sync::Arc;
use std::time::Duration;

use domain::content::SmsContent;
use domain::sms::segment::{MOST_SEGMENTS, SegmentedText};
use domain::{Answer, Outcome, Problem, Reason};
use rusmpp::pdus::SubmitSm;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};
use worker::{Attempt, Call, Probe, Provider, ProviderKind, unusable};

use super::link::Reply;
use super::session::{Session, SubmissionFailure, check};
use super::settings::{Alphabets, SmppSettings};
use super::{status, submission};
use crate::connections::{Connections, counted};
use crate::limits::Limits;
use crate::recorder::Post;

/// Pause before a refused part is submitted again in the same attempt. If the first part is refused, the attempt ends
/// instead.
const PART_PAUSE: Duration = Duration::from_millis(500);
const PROBE_LIMIT: Duration = Duration::from_secs(20);

pub struct Smpp;

impl ProviderKind for Smpp {
    type Resources = Connections;
    type Settings = SmppSettings;

    const NAME: &'static str = "smpp";
    const SECRETS: &'static [&'static str] = &["password"];
    const EXAMPLE: &'static str = r#"{
      "host": "smpp.example.com",
      "port": 3550,
      "security": "tls",               tls or none; none is refused unless outbound.allow_private is set; "caCertificate" (PEM): optional
      "systemId": "shop",
      "password": "...",               up to 8 characters; stored encrypted
      "systemType": "",                optional
      "from": "+4915112345678",        a number, a short code, or up to 11 letters and digits
      "window": 10,                    maximum number of messages without a response yet, 1 to 1000
      "enquireLinkSeconds": 30,        silence after which the connection is checked, 1 to 600
      "alphabet": "auto",              GSM 7 bit if it has all characters, else UCS-2; or ucs2
      "concatenation": "udh",          udh: a long text is split into numbered parts; payload: it is sent whole, in message_payload
      "receipts": true,                requests delivery receipts
      "receiptIds": "auto",            notation of ids in receipts: auto; same, decimal or hex if auto misses receipts
      "countryCode": "49",             optional: of senders of STOP whose numbers have no country code
      "stopKeywords": ["NO MORE"],     optional: in addition to STOP and its equivalents
      "startKeywords": ["AGAIN"]       optional: in addition to START and its equivalents
    }"#;

    fn parse(settings: &Value) -> Result<SmppSettings, Vec<Problem>> {
        SmppSettings::parse(settings)
    }

    async fn send(attempt: Attempt<'_, Connections>, settings: &SmppSettings) -> Answer {
        let Attempt { resources: connections, call, input: content } = attempt;
        let session = session(connections, call.provider, settings);
        let segments = segmented(session.settings(), &content.text);
        counted(send(&session, connections.limits, call, content, &segments).await, &segments)
    }

    async fn probe(settings: &SmppSettings, probe: &Probe<'_>) -> Result<String, Answer> {
        check(settings, probe.outbound, PROBE_LIMIT).await?;
        Ok(format!("{} accepted a bind of {} as a transceiver", settings.host, settings.system_id))
    }
}

/// Binds the session of a provider, or keeps it bound, so that receipts arrive.
pub(crate) fn listen(connections: &Connections, provider: &Provider) -> Result<(), Answer> {
    let settings = SmppSettings::parse(&provider.settings).map_err(|problems| unusable(&problems))?;
    if settings.receipts {
        session(connections, provider, &settings).keep();
    }
    Ok(())
}

fn session(connections: &Connections, provider: &Provider, settings: &SmppSettings) -> Arc<Session> {
    let post = Post::new(provider, connections);
    connections.sessions.of(provider, settings, post)
}

fn segmented<'a>(settings: &SmppSettings, text: &'a str) -> SegmentedText<'a> {
    match settings.alphabets {
        Alphabets::Both => SegmentedText::of(text),
        Alphabets::Ucs2 => SegmentedText::in_ucs2(text),
    }
}

/// Sends one message, part by part.
///
/// If the message centre certainly did not accept the first part, the whole message may be retried. After it has
/// accepted a part, a refused part is submitted again until the time limit. If that does not succeed, the message
/// fails: a retry would deliver the accepted parts twice. If the outcome of a part is unknown, the outcome of the
/// message is unknown.
async fn send(
    session: &Session,
    limits: Limits,
    call: &Call<'_>,
    content: &SmsContent,
    segments: &SegmentedText<'_>,
) -> Answer {
    if segments.parts.len() > MOST_SEGMENTS {
        let message = format!("the text has more than {MOST_SEGMENTS} segments");
        return Answer::refused(Reason::TooLarge, "too_long", message);
    }
    let Some(parts) = submission::parts(session.settings(), call, content, segments) else {
        let message = "the sender, the recipient or the text is not valid in SMPP";
        return Answer::refused(Reason::InvalidContent, "unsendable", message);
    };
    let end = Instant::now() + limits.call;
    let total = parts.len();
    let mut provider_id = None;
    for (index, part) in parts.into_iter().enumerate() {
        let answer = if index == 0 {
            submit(session, limits, part, end).await
        } else {
            submit_until_accepted(session, limits, part, end).await
        };
        match answer.outcome {
            Outcome::Sent { provider_id: id } => provider_id = id,
            _ if index == 0 => return blaming(answer, content.from.is_some()),
            _ => return incomplete(answer, index, total),
        }
    }
    Answer::new(Outcome::Sent { provider_id }, status::name(0), String::new())
}

async fn submit(session: &Session, limits: Limits, part: SubmitSm, end: Instant) -> Answer {
    let begun_by = end.min(Instant::now() + limits.connecting);
    let reply = match session.submit(part, begun_by).await {
        Ok(reply) => reply,
        Err(SubmissionFailure(answer)) => return answer,
    };
    let answered_by = end.min(Instant::now() + limits.response);
    match timeout_at(answered_by, reply).await {
        Ok(Ok(Reply { status: 0, message_id })) => {
            Answer::new(Outcome::Sent { provider_id: message_id }, status::name(0), String::new())
        }
        Ok(Ok(Reply { status, .. })) => {
            Answer::new(status::outcome(status), status::name(status), String::new())
        }
        Ok(Err(_)) => {
            Answer::new(Outcome::Unknown, "connection_lost", "the connection was lost before the answer")
        }
        Err(_) => Answer::new(Outcome::Unknown, "timeout", "no answer in time"),
    }
}

async fn submit_until_accepted(session: &Session, limits: Limits, part: SubmitSm, end: Instant) -> Answer {
    loop {
        let answer = submit(session, limits, part.clone(), end).await;
        let is_temporary = matches!(answer.outcome, Outcome::Retry { .. });
        if !is_temporary || Instant::now() + PART_PAUSE >= end {
            return answer;
        }
        sleep(PART_PAUSE).await;
    }
}

fn incomplete(answer: Answer, index: usize, total: usize) -> Answer {
    let outcome = match answer.outcome {
        Outcome::Unknown => Outcome::Unknown,
        _ => Outcome::Failed,
    };
    let message = format!("part {} of {total}, after {index} were accepted: {}", index + 1, answer.message);
    Answer { outcome, message, ..answer }
}

/// If the message centre refused a sender that the send chose, fails the delivery instead of pausing the provider.
fn blaming(answer: Answer, chose_sender: bool) -> Answer {
    if chose_sender && status::is_about_sender(&answer.code) {
        Answer { outcome: Outcome::Failed, ..answer }
    } else {
        answer
    }
}
