//! The page that `tidings explain` prints.

use std::io::IsTerminal;

use domain::explain::EventKind;
use domain::{Channel, Status, Timestamp};
use uuid::Uuid;

use crate::print::printable;

use super::row::{ChannelRow, EventRow, ExplanationRow, SendsRow};

/// Columns of the page.
const WIDTH: usize = 100;
/// Column at which the sentences about channels begin.
const SENTENCES: usize = 27;

/// Escape sequences, if the output is a terminal and `NO_COLOR` is not set.
struct Ink(bool);

impl Ink {
    fn of_output() -> Ink {
        Ink(std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none())
    }

    fn paint(&self, code: u8, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn bold(&self, text: &str) -> String {
        self.paint(1, text)
    }

    fn dim(&self, text: &str) -> String {
        self.paint(2, text)
    }
}

/// Renders the story of one send.
pub(super) fn page(request: Uuid, explanation: &ExplanationRow) -> String {
    let ink = Ink::of_output();
    let mut text = head(&ink, request, explanation);
    for line in wrapped(&explanation.verdict, WIDTH) {
        text += &format!("{line}\n");
    }
    if !explanation.events.is_empty() {
        text.push('\n');
        for channel in &explanation.channels {
            text += &channel_lines(&ink, channel);
        }
        text.push('\n');
        let mut day = None;
        for event in &explanation.events {
            text += &event_line(&ink, event, &mut day);
        }
    }
    if let Some(now) = &explanation.now {
        text += &format!("\n{} {}\n", ink.bold("If the same were sent now:"), one_line(&now.text));
    }
    text
}

fn head(ink: &Ink, request: Uuid, explanation: &ExplanationRow) -> String {
    let stored = explanation.request.as_ref();
    let title = stored.and_then(|stored| stored.title.as_deref()).unwrap_or("Send");
    let person = &explanation.person;
    let who = match &person.name {
        Some(name) => format!("{name} ({})", person.identifier),
        None => person.identifier.clone(),
    };
    let mut facts = vec![format!("request {request}")];
    if let Some(stored) = stored {
        facts.extend(stored.category.clone());
        facts.extend(stored.template.as_ref().map(ToString::to_string));
    }
    format!(
        "{}\n{}\n\n",
        ink.bold(&one_line(&format!("{title} → {who}"))),
        ink.dim(&one_line(&facts.join("   ")))
    )
}

fn channel_lines(ink: &Ink, channel: &ChannelRow) -> String {
    let (mark, colour) = mark(channel.status);
    let state = ink.paint(colour, &format!("{mark} {:<11}", channel.status.as_str()));
    let mut lines = wrapped(&channel.sentence, WIDTH - SENTENCES).into_iter();
    let first = lines.next().unwrap_or_default();
    let mut text = format!("  {:<11}{state} {first}\n", name(channel.channel));
    for line in lines {
        text += &format!("{:SENTENCES$}{line}\n", "");
    }
    if let Some(fix) = &channel.fix {
        let action = fix.action.as_ref().map(|action| format!(": {action}")).unwrap_or_default();
        for (place, line) in
            wrapped(&format!("{}{action}", fix.text), WIDTH - SENTENCES - 2).into_iter().enumerate()
        {
            let arrow = if place == 0 { "→" } else { " " };
            text += &format!("{:SENTENCES$}{}\n", "", ink.paint(36, &format!("{arrow} {line}")));
        }
    }
    text
}

/// Mark of a status and the code of its colour. The mark alone tells the statuses apart.
fn mark(status: Status) -> (char, u8) {
    match status {
        Status::Sent | Status::Delivered => ('✓', 32),
        Status::Queued | Status::Sending | Status::Retrying | Status::Waiting => ('…', 33),
        Status::Failed | Status::Parked | Status::Unknown => ('✗', 31),
        Status::Skipped | Status::Cancelled | Status::Expired => ('⊘', 2),
    }
}

fn name(channel: Channel) -> &'static str {
    match channel {
        Channel::InApp => "in-app",
        Channel::WebPush => "web push",
        Channel::MobilePush => "phone push",
        channel => channel.as_str(),
    }
}

/// `day` is the date of the line before.
fn event_line(ink: &Ink, event: &EventRow, day: &mut Option<String>) -> String {
    let at = event.at.to_string();
    let (date, time) = at.split_once('T').unwrap_or((&at, ""));
    let mut text = String::new();
    if day.replace(date.to_owned()).as_deref() != Some(date) {
        text += &format!("  {}\n", ink.dim(&format!("{date} UTC")));
    }
    let what = match (event.kind, event.channel) {
        (EventKind::Attempt | EventKind::Receipt, Some(channel)) => name(channel),
        (kind, _) => kind.as_str(),
    };
    let waited = event.waited_ms.map(|waited| format!("waited {}", duration(waited)));
    let took = event.took_ms.map(|took| format!("took {}", duration(took)));
    let times: Vec<String> = waited.into_iter().chain(took).collect();
    let times = if times.is_empty() { String::new() } else { format!("  ({})", times.join(", ")) };
    let time = ink.dim(time.trim_end_matches('Z'));
    text + &format!("  {time}  {what:<11}{}{}\n", one_line(&event.text), ink.dim(&times))
}

fn duration(millis: u64) -> String {
    if millis < 10_000 {
        return format!("{millis} ms");
    }
    humantime::format_duration(std::time::Duration::from_secs(millis / 1_000)).to_string()
}

/// Renders the latest sends to a person.
pub(super) fn list(app: &str, found: &SendsRow) -> String {
    let ink = Ink::of_output();
    let mut text = String::new();
    for explained in &found.sends {
        let send = &explained.send;
        let template = send.template.as_ref().map(ToString::to_string);
        let title = send.title.as_deref().or(template.as_deref()).unwrap_or("Send");
        let category = send.category.as_deref().unwrap_or("no category");
        text += &format!("{}  {}  {category}\n", short(send.accepted_at), ink.bold(&one_line(title)));
        for line in wrapped(&explained.verdict, WIDTH - 2) {
            text += &format!("  {line}\n");
        }
        let command = format!("tidings explain {app} {} {}", found.person.identifier, send.request_id);
        text += &format!("  {}\n\n", ink.dim(&command));
    }
    if let Some(now) = &found.now {
        let what =
            now.category.as_ref().map_or("A send".to_owned(), |category| format!("A send of {category}"));
        text += &format!("{} {}\n", ink.bold(&format!("{what} now:")), one_line(&now.text));
    } else if found.sends.is_empty() {
        text += &format!("{}\n", found.none_matches);
    }
    if let Some(next) = found.next {
        text += &format!("There may be earlier ones: --before {next} continues.\n");
    }
    text
}

fn one_line(text: &str) -> String {
    printable(text).replace('\n', " ")
}

fn short(at: Timestamp) -> String {
    let text = at.to_string();
    text.split('.').next().unwrap_or_default().replace('T', " ")
}

/// Breaks a text between words. A longer word gets its own line.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in printable(text).split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_keep_every_word() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a verylongword b", 4), ["a", "verylongword", "b"]);
        assert_eq!(wrapped("", 4), [""; 0]);
    }
}
