//! Explanations, as the command shows them.

use domain::explain::{EventKind, ShownFix};
use domain::{Channel, Reason, SendId, Status, Timestamp};
use operations::explain::{ExplainedSends, Explanation, Now, NowChannel, Person};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::sends::{SendRow, UsedTemplate};

#[derive(Serialize)]
pub(super) struct PersonRow {
    pub(super) identifier: String,
    pub(super) name: Option<String>,
}

/// The story of one send.
#[derive(Serialize)]
pub(super) struct ExplanationRow {
    pub(super) verdict: String,
    pub(super) person: PersonRow,
    /// None if the send is not planned yet.
    pub(super) request: Option<RequestRow>,
    pub(super) channels: Vec<ChannelRow>,
    /// Empty if the person is no recipient, or the send is not planned yet.
    pub(super) events: Vec<EventRow>,
    pub(super) now: Option<NowRow>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestRow {
    pub(super) request_id: Uuid,
    pub(super) title: Option<String>,
    pub(super) category: Option<String>,
    pub(super) template: Option<UsedTemplate>,
    accepted_at: Timestamp,
    send_at: Option<Timestamp>,
    expires_at: Option<Timestamp>,
    cancelled_at: Option<Timestamp>,
}

#[derive(Serialize)]
pub(super) struct ChannelRow {
    pub(super) channel: Channel,
    pub(super) status: Status,
    pub(super) reason: Option<Reason>,
    pub(super) sentence: String,
    pub(super) fix: Option<ShownFix>,
    pub(super) documentation: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventRow {
    pub(super) at: Timestamp,
    pub(super) kind: EventKind,
    pub(super) channel: Option<Channel>,
    pub(super) text: String,
    pub(super) waited_ms: Option<u64>,
    pub(super) took_ms: Option<u64>,
}

/// Result of a send now.
#[derive(Serialize)]
pub(super) struct NowRow {
    pub(super) category: Option<String>,
    pub(super) text: String,
    channels: Vec<NowChannelRow>,
}

#[derive(Serialize)]
struct NowChannelRow {
    channel: Channel,
    sends: bool,
    reason: Option<Reason>,
}

/// The latest sends to a person.
#[derive(Serialize)]
pub(super) struct SendsRow {
    pub(super) person: PersonRow,
    pub(super) sends: Vec<ExplainedSendRow>,
    pub(super) next: Option<SendId>,
    pub(super) now: Option<NowRow>,
    /// Sentence for an empty list.
    #[serde(skip)]
    pub(super) none_matches: String,
}

#[derive(Serialize)]
pub(super) struct ExplainedSendRow {
    #[serde(flatten)]
    pub(super) send: SendRow,
    pub(super) verdict: String,
}

impl From<Person> for PersonRow {
    fn from(person: Person) -> PersonRow {
        PersonRow { identifier: person.identifier, name: person.name }
    }
}

impl From<Now> for NowRow {
    fn from(now: Now) -> NowRow {
        let channels = now.channels.iter().map(|decided| NowChannelRow {
            channel: decided.channel,
            sends: decided.reason.is_none(),
            reason: decided.reason,
        });
        NowRow { text: now.line(), channels: channels.collect(), category: now.category }
    }
}

impl ExplanationRow {
    pub(super) fn new(request: Uuid, found: Explanation) -> ExplanationRow {
        let stored = found.request.map(|stored| RequestRow {
            request_id: request,
            title: stored.title,
            category: stored.category,
            template: stored.template.map(UsedTemplate::from),
            accepted_at: stored.accepted_at,
            send_at: stored.send_at,
            expires_at: stored.expires_at,
            cancelled_at: stored.cancelled_at,
        });
        let (channels, events) = found.story.map(|story| (story.channels, story.events)).unwrap_or_default();
        let channels = channels.into_iter().map(|story| ChannelRow {
            channel: story.channel,
            status: story.status,
            reason: story.reason,
            sentence: story.sentence,
            fix: story.fix,
            documentation: format!("statuses.md#{}", story.anchor),
        });
        let events = events.into_iter().map(|event| EventRow {
            at: event.at,
            kind: event.kind,
            channel: event.channel,
            text: event.text,
            waited_ms: event.waited_ms,
            took_ms: event.took_ms,
        });
        ExplanationRow {
            verdict: found.verdict,
            person: found.person.into(),
            request: stored,
            channels: channels.collect(),
            events: events.collect(),
            now: found.now.map(NowRow::from),
        }
    }
}

impl From<ExplainedSends> for SendsRow {
    fn from(found: ExplainedSends) -> SendsRow {
        let none_matches = found.none_matches();
        let sends = found
            .sends
            .into_iter()
            .map(|explained| ExplainedSendRow { send: explained.send.into(), verdict: explained.verdict });
        SendsRow {
            sends: sends.collect(),
            next: found.next,
            now: found.now.map(NowRow::from),
            person: found.person.into(),
            none_matches,
        }
    }
}

/// An explanation in the admin API.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExplanationBody {
    verdict: String,
    /// None if the user was erased.
    person: Option<String>,
    name: Option<String>,
    request: Option<RequestRow>,
    channels: Vec<ChannelBody>,
    events: Vec<EventRow>,
    sends: Vec<ExplainedSendBody>,
    now: Option<Vec<NowChannelBody>>,
    now_category: Option<String>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct ChannelBody {
    channel: Channel,
    status: Status,
    reason: Option<Reason>,
    sentence: String,
    fix: Option<String>,
    action: Option<String>,
    documentation: String,
}

#[derive(Deserialize)]
struct ExplainedSendBody {
    send: SendRow,
    verdict: String,
}

#[derive(Deserialize)]
struct NowChannelBody {
    channel: Channel,
    reason: Option<Reason>,
}

impl ExplanationBody {
    fn now(now: Option<Vec<NowChannelBody>>, category: Option<String>) -> Option<NowRow> {
        let channels = now?.into_iter();
        let channels =
            channels.map(|decided| NowChannel { channel: decided.channel, reason: decided.reason });
        Some(Now { category, channels: channels.collect() }.into())
    }

    /// Returns None if the user was erased.
    pub(super) fn into_explanation(self) -> Option<ExplanationRow> {
        let channels = self.channels.into_iter().map(|story| ChannelRow {
            channel: story.channel,
            status: story.status,
            reason: story.reason,
            sentence: story.sentence,
            fix: story.fix.map(|text| ShownFix { text, action: story.action }),
            documentation: story.documentation,
        });
        Some(ExplanationRow {
            verdict: self.verdict,
            person: PersonRow { identifier: self.person?, name: self.name },
            request: self.request,
            channels: channels.collect(),
            events: self.events,
            now: ExplanationBody::now(self.now, self.now_category),
        })
    }

    /// Returns None if the user was erased.
    pub(super) fn into_sends(self) -> Option<SendsRow> {
        let sends = self.sends.into_iter();
        let sends =
            sends.map(|explained| ExplainedSendRow { send: explained.send, verdict: explained.verdict });
        let next = self.next_cursor.as_deref().and_then(web::cursor::place);
        Some(SendsRow {
            person: PersonRow { identifier: self.person?, name: self.name },
            sends: sends.collect(),
            next: next.and_then(|next| next.parse().ok()),
            now: ExplanationBody::now(self.now, self.now_category),
            none_matches: self.verdict,
        })
    }
}
