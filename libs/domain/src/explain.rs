//! Why a person got a notification or did not: facts that were stored when things happened become a story. Provider's words are quoted.

mod events;
pub mod meaning;
mod verdict;

pub use events::{EventKind, StoryEvent};

use serde::Serialize;

use crate::excerpt::excerpt;
use crate::{Channel, Reason, Status, Timestamp};
use meaning::{Names, anchor, meaning};

/// Length in bytes of a provider's words in a sentence.
const MAX_QUOTE: usize = 200;

/// Facts about one send for one person.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Name of the person in the texts.
    pub who: String,
    pub accepted_at: Timestamp,
    /// None if the send is not scheduled.
    pub send_at: Option<Timestamp>,
    pub cancelled_at: Option<Timestamp>,
    /// In the order of the channels.
    pub pairs: Vec<PairFacts>,
}

/// Facts about one delivery, inbox item or skipped channel.
#[derive(Clone, Debug)]
pub struct PairFacts {
    pub channel: Channel,
    pub status: Status,
    pub reason: Option<Reason>,
    /// Masked.
    pub target: Option<String>,
    pub provider: Option<String>,
    pub planned_at: Option<Timestamp>,
    pub wait: Option<WaitFacts>,
    /// Oldest first.
    pub attempts: Vec<AttemptFacts>,
    /// The inbox item, if there is one.
    pub item: Option<ItemFacts>,
    pub suppression: Option<SuppressionFacts>,
}

#[derive(Clone, Debug)]
pub struct WaitFacts {
    pub code: Option<String>,
    pub next_attempt_at: Timestamp,
}

#[derive(Clone, Debug)]
pub struct AttemptFacts {
    pub number: i32,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub provider: Option<String>,
    pub code: String,
    pub message: String,
    pub receipt: Option<ReceiptFacts>,
}

#[derive(Clone, Debug)]
pub struct ReceiptFacts {
    pub outcome: String,
    pub code: String,
    pub message: String,
    pub received_at: Timestamp,
}

#[derive(Clone, Copy, Debug)]
pub struct ItemFacts {
    pub seen_at: Option<Timestamp>,
    pub read_at: Option<Timestamp>,
    pub deleted_at: Option<Timestamp>,
}

#[derive(Clone, Debug)]
pub struct SuppressionFacts {
    /// Masked.
    pub target: String,
    pub code: String,
    pub since: Timestamp,
}

/// Story of one send for one person.
#[derive(Clone, Debug)]
pub struct Story {
    pub verdict: String,
    pub channels: Vec<ChannelStory>,
    /// Earliest first.
    pub events: Vec<StoryEvent>,
}

/// Result of the send on one channel.
#[derive(Clone, Debug)]
pub struct ChannelStory {
    pub channel: Channel,
    pub status: Status,
    pub reason: Option<Reason>,
    pub sentence: String,
    /// None if there is nothing to do.
    pub fix: Option<ShownFix>,
    /// Place of the status and reason in the documentation.
    pub anchor: String,
    /// Places of the deliveries in [`Facts::pairs`].
    pub pairs: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShownFix {
    pub text: String,
    /// Command or call that helps, if one does.
    pub action: Option<String>,
}

/// Tells the story of a send for a person.
#[must_use]
pub fn tell(facts: &Facts) -> Story {
    let mut channels: Vec<ChannelStory> = Vec::new();
    for (place, pair) in facts.pairs.iter().enumerate() {
        match channels.iter_mut().find(|story| story.channel == pair.channel) {
            Some(story) => story.pairs.push(place),
            None => channels.push(facts.channel_story(place, pair)),
        }
    }
    for story in channels.iter_mut().filter(|story| story.pairs.len() > 1) {
        *story = facts.common_story(&story.pairs);
    }
    let verdict = verdict::verdict(facts, &channels);
    Story { verdict, events: events::events(facts), channels }
}

impl Facts {
    /// Tells about the delivery that came farthest, and how many others there are.
    fn common_story(&self, places: &[usize]) -> ChannelStory {
        let rank = |place: &usize| self.pairs.get(*place).map_or(u8::MAX, |pair| rank(pair.status));
        let best = places.iter().copied().min_by_key(rank).unwrap_or_default();
        let Some(pair) = self.pairs.get(best) else { return self.nothing() };
        let mut story = self.channel_story(best, pair);
        let same = places.iter().filter(|place| rank(place) == rank(&best)).count();
        let noun = if pair.channel == Channel::WebPush { "browsers" } else { "devices" };
        story.sentence += &format!(" This is so for {same} of {} {noun}.", places.len());
        story.pairs = places.to_vec();
        story
    }

    fn nothing(&self) -> ChannelStory {
        let (channel, status, reason) = (Channel::InApp, Status::Skipped, None);
        let (sentence, anchor) = (format!("Nothing for {}.", self.who), anchor(status, reason));
        ChannelStory { channel, status, reason, sentence, fix: None, anchor, pairs: Vec::new() }
    }

    fn names<'a>(&'a self, pair: &'a PairFacts) -> Names<'a> {
        Names { who: &self.who, channel: Some(pair.channel), provider: pair.provider.as_deref() }
    }

    fn channel_story(&self, place: usize, pair: &PairFacts) -> ChannelStory {
        let names = self.names(pair);
        let found = meaning(pair.status, pair.reason);
        let mut sentence = names.fill(found.sentence);
        for detail in self.details(pair) {
            sentence.push(' ');
            sentence += &detail;
        }
        let fix = found
            .fix
            .map(|fix| ShownFix { text: names.fill(fix.text), action: fix.action.map(str::to_owned) });
        ChannelStory {
            channel: pair.channel,
            status: pair.status,
            reason: pair.reason,
            sentence,
            fix,
            anchor: anchor(pair.status, pair.reason),
            pairs: vec![place],
        }
    }

    /// Returns sentences with what is known beyond the status and reason.
    fn details(&self, pair: &PairFacts) -> Vec<String> {
        let mut details = Vec::new();
        if let Some(item) = pair.item {
            let read = item.read_at.map(|at| format!("{} read it at {}.", self.who, self.clock(at)));
            let seen = item.seen_at.map(|at| format!("{} saw it at {}.", self.who, self.clock(at)));
            details.extend(read.or(seen));
            details.extend(item.deleted_at.map(|at| format!("It was deleted at {}.", self.clock(at))));
        }
        let is_told = !matches!(pair.status, Status::Sent | Status::Delivered);
        if let Some(attempt) = pair.attempts.last().filter(|_| is_told) {
            details.push(attempt.quoted(pair.provider.as_deref()));
        }
        if let Some(wait) = &pair.wait {
            let code = wait.code.as_deref().filter(|_| pair.attempts.is_empty());
            details.extend(code.map(|code| format!("Its last answer was {}.", quote(code))));
            details.push(format!("Next attempt: {}.", self.clock(wait.next_attempt_at)));
        }
        if let Some(suppression) = &pair.suppression {
            let SuppressionFacts { target, code, since } = suppression;
            let (code, since) = (quote(code), self.clock(*since));
            details.push(format!("{target} is suppressed since {since}, after the answer {code}."));
        }
        details
    }

    /// Returns the time of day in UTC, after the date if it is another one than that of the acceptance.
    fn clock(&self, at: Timestamp) -> String {
        let (text, accepted) = (at.to_string(), self.accepted_at.to_string());
        let (date, time) = text.split_once('T').unwrap_or((&text, ""));
        let time = time.split('.').next().unwrap_or_default();
        if accepted.starts_with(date) { format!("{time} UTC") } else { format!("{date} {time} UTC") }
    }
}

impl AttemptFacts {
    fn quoted(&self, provider: Option<&str>) -> String {
        let (code, message) = match &self.receipt {
            Some(receipt) => (&receipt.code, &receipt.message),
            None => (&self.code, &self.message),
        };
        // Answers of mail servers repeat the end of the code.
        let end = code.split(' ').next_back().unwrap_or_default();
        let rest = message.strip_prefix(code.as_str()).or_else(|| message.strip_prefix(end));
        let words = format!("{code} {}", rest.unwrap_or(message).trim());
        let answerer = self.provider.as_deref().or(provider).unwrap_or("Tidings");
        format!("{answerer} answered attempt {}: {}.", self.number, quote(words.trim()))
    }
}

/// Quotes the words of a provider on one line.
fn quote(words: &str) -> String {
    let line: String = words.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("\"{}\"", excerpt(line, MAX_QUOTE).replace('"', "'"))
}

/// Order of the statuses by how far a delivery came.
fn rank(status: Status) -> u8 {
    match status {
        Status::Delivered => 0,
        Status::Sent => 1,
        Status::Sending => 2,
        Status::Queued => 3,
        Status::Waiting | Status::Retrying => 4,
        Status::Unknown => 5,
        Status::Parked => 6,
        Status::Failed => 7,
        Status::Expired => 8,
        Status::Cancelled => 9,
        Status::Skipped => 10,
    }
}

#[cfg(test)]
mod tests;
