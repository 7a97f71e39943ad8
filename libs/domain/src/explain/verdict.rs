use crate::explain::{ChannelStory, Facts, rank};
use crate::{Reason, Status};

/// Reasons that explain nothing to a reader if the person got the message on another channel.
const ROUTINE: [Reason; 5] = [
    Reason::NoAddress,
    Reason::NoContent,
    Reason::NoProvider,
    Reason::NotSelected,
    Reason::ChannelUnavailable,
];

/// Sums up the channels: what the person got, then what is missing, and why.
pub(super) fn verdict(facts: &Facts, channels: &[ChannelStory]) -> String {
    let Some(first) = channels.first() else {
        return format!("Nothing was planned for {}.", facts.who);
    };
    if first.reason == Some(Reason::RecipientErased) {
        return "The user was erased.".to_owned();
    }
    let is_common = channels.len() > 1
        && first.status == Status::Skipped
        && channels.iter().all(|story| (story.status, story.reason) == (first.status, first.reason));
    if is_common {
        let cause = first.sentence.split_once(": ").map_or(first.sentence.as_str(), |(_, cause)| cause);
        return format!("{} got nothing: {cause}", facts.who);
    }
    let is_reached = channels.iter().any(|story| rank(story.status) <= rank(Status::Sent));
    let mut told: Vec<&ChannelStory> = channels
        .iter()
        .filter(|story| !(is_reached && story.reason.is_some_and(|reason| ROUTINE.contains(&reason))))
        .filter(|story| story.reason != Some(Reason::NotSelected))
        .collect();
    told.sort_by_key(|story| rank(story.status));
    let sentences: Vec<&str> = told.iter().map(|story| story.sentence.as_str()).collect();
    if sentences.is_empty() { format!("{} got nothing.", facts.who) } else { sentences.join(" ") }
}
