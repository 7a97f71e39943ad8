//! SMPP 3.4 (issue 1.2 of the specification).

mod dial;
mod link;
pub mod receipt;
mod session;
mod sessions;
pub mod settings;
pub mod status;
mod submission;

use std::time::Duration;

use domain::content::SmsContent;
use domain::sms::segment::{MOST_SEGMENTS, Segmented};
use domain::{Answer, Outcome};
use rusmpp::pdus::SubmitSm;
use tokio::time::{Instant, sleep, timeout_at};
use worker::Call;

use crate::answers::local_answer;
use crate::limits::Limits;
use link::Reply;
pub(crate) use session::{NotSubmitted, Session, check};
pub(crate) use sessions::Sessions;
use settings::{Alphabets, SmppSettings};

/// Pause before a refused later part is submitted again.
const PART_PAUSE: Duration = Duration::from_millis(500);

/// Splits a text into segments, in an alphabet that the settings allow.
pub(crate) fn segmented<'a>(settings: &SmppSettings, text: &'a str) -> Segmented<'a> {
    match settings.alphabets {
        Alphabets::Both => Segmented::of(text),
        Alphabets::Ucs2 => Segmented::in_ucs2(text),
    }
}

/// Sends one message, part by part.
///
/// A message may be repeated as long as the server has certainly accepted none of its parts. After the first accepted
/// part, only the refused part is repeated, while there is time. If the rest cannot follow, the message has failed and is
/// not sent again, because the user would get the first part twice. If the outcome of a part is unknown, so is that of the
/// message.
pub(crate) async fn send(
    session: &Session,
    limits: Limits,
    call: &Call<'_>,
    content: &SmsContent,
    segments: &Segmented<'_>,
) -> Answer {
    if segments.parts.len() > MOST_SEGMENTS {
        return local_answer(
            Outcome::Failed,
            "too_long",
            format!("a message has at most {MOST_SEGMENTS} segments"),
        );
    }
    let Some(parts) = submission::parts(session.settings(), call, content, segments) else {
        return local_answer(
            Outcome::Failed,
            "unsendable",
            "the sender or the recipient does not fit an SMPP address",
        );
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

/// Submits one part and waits for the response.
async fn submit(session: &Session, limits: Limits, part: SubmitSm, end: Instant) -> Answer {
    let begun_by = end.min(Instant::now() + limits.connecting);
    let reply = match session.submit(part, begun_by).await {
        Ok(reply) => reply,
        Err(NotSubmitted(answer)) => return answer,
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
            local_answer(Outcome::Unknown, "connection_lost", "the connection was lost before the answer")
        }
        Err(_) => local_answer(Outcome::Unknown, "timeout", "no answer in time"),
    }
}

/// Submits a later part, again after each temporary refusal while there is time.
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

/// Answer for a message whose first `index` parts were accepted and whose next part was not.
fn incomplete(answer: Answer, index: usize, total: usize) -> Answer {
    let outcome = match answer.outcome {
        Outcome::Unknown => Outcome::Unknown,
        _ => Outcome::Failed,
    };
    let message = format!("part {} of {total}, after {index} were accepted: {}", index + 1, answer.message);
    Answer { outcome, message, ..answer }
}

/// A refused sender must not pause the provider if the send chose it.
fn blaming(answer: Answer, chose_sender: bool) -> Answer {
    if chose_sender && status::is_about_sender(&answer.code) {
        Answer { outcome: Outcome::Failed, ..answer }
    } else {
        answer
    }
}
