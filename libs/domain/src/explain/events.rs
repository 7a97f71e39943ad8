use crate::explain::{AttemptFacts, Facts, PairFacts, quote};
use crate::text_enum::text_enum;
use crate::{Channel, Status, Timestamp};

text_enum! {
    EventKind {
        Accepted = "accepted",
        Scheduled = "scheduled",
        Planned = "planned",
        Attempt = "attempt",
        Receipt = "receipt",
        Seen = "seen",
        Read = "read",
        Deleted = "deleted",
        Cancelled = "cancelled",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoryEvent {
    pub at: Timestamp,
    pub kind: EventKind,
    /// None if the event concerns the whole send.
    pub channel: Option<Channel>,
    pub text: String,
    /// Milliseconds since the step before it; None if there is none.
    pub waited_ms: Option<u64>,
    /// Milliseconds that the call took; None if it was no call.
    pub took_ms: Option<u64>,
}

/// Returns the events of a send for a person, earliest first.
pub(super) fn events(facts: &Facts) -> Vec<StoryEvent> {
    let mut events = vec![event(facts.accepted_at, EventKind::Accepted, None, "the API accepted the send")];
    if let Some(at) = facts.send_at {
        events.push(event(at, EventKind::Scheduled, None, "`sendAt` of the send"));
    }
    if let Some(at) = facts.pairs.iter().filter_map(|pair| pair.planned_at).min() {
        let due = facts.send_at.unwrap_or(facts.accepted_at);
        let waited = Some(millis(due, at));
        events.push(StoryEvent { waited_ms: waited, ..event(at, EventKind::Planned, None, &plan(facts)) });
    }
    if let Some(at) = facts.cancelled_at {
        events.push(event(at, EventKind::Cancelled, None, "the request was cancelled"));
    }
    for pair in &facts.pairs {
        add_events_of(pair, &mut events);
    }
    events.sort_by_key(|event| event.at);
    events
}

fn event(at: Timestamp, kind: EventKind, channel: Option<Channel>, text: &str) -> StoryEvent {
    StoryEvent { at, kind, channel, text: text.to_owned(), waited_ms: None, took_ms: None }
}

/// Describes the decision for each channel.
fn plan(facts: &Facts) -> String {
    let mut texts: Vec<String> = Vec::new();
    for pair in &facts.pairs {
        let is_planned_out = pair.status == Status::Skipped && pair.attempts.is_empty();
        let decision = pair.reason.filter(|_| is_planned_out).map_or("yes", |reason| reason.as_str());
        let text = format!("{} {decision}", pair.channel);
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts.join(", ")
}

fn add_events_of(pair: &PairFacts, events: &mut Vec<StoryEvent>) {
    let channel = Some(pair.channel);
    if let Some(item) = pair.item {
        let mut add = |at: Option<Timestamp>, kind, text| {
            events.extend(at.map(|at| event(at, kind, channel, text)));
        };
        add(item.seen_at, EventKind::Seen, "seen in the inbox");
        add(item.read_at, EventKind::Read, "read in the inbox");
        add(item.deleted_at, EventKind::Deleted, "deleted from the inbox");
    }
    let mut before = pair.planned_at;
    for attempt in &pair.attempts {
        events.push(StoryEvent {
            waited_ms: before.map(|before| millis(before, attempt.started_at)),
            took_ms: Some(millis(attempt.started_at, attempt.ended_at)),
            ..event(attempt.started_at, EventKind::Attempt, channel, &answered(attempt))
        });
        before = Some(attempt.ended_at);
        if let Some(receipt) = &attempt.receipt {
            let text = format!("receipt: {} {}", receipt.outcome, quote(&receipt.code));
            events.push(event(receipt.received_at, EventKind::Receipt, channel, &text));
        }
    }
}

fn answered(attempt: &AttemptFacts) -> String {
    let AttemptFacts { number, provider, code, .. } = attempt;
    match provider {
        Some(provider) => format!("attempt {number}: {provider} answered {}", quote(code)),
        None => format!("attempt {number}: no provider was called, {}", quote(code)),
    }
}

fn millis(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.since(from).as_millis()).unwrap_or(u64::MAX)
}
