//! Texts of the pages.

use std::fmt;
use std::time::Duration;

use domain::{Channel, Status, Timestamp};
use operations::overview::Count;

pub(crate) use crate::route::encoded;

/// A time in UTC. The script of the page shows it in local time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time(pub(crate) Timestamp);

impl Time {
    /// RFC 3339.
    pub(crate) fn machine(self) -> String {
        self.0.to_string()
    }
}

impl fmt::Display for Time {
    /// Writes a time such as `29 Nov 19:42:18`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MONTHS: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let text = self.0.to_string();
        let (day, time) = text.split_once('T').unwrap_or((&text, ""));
        let mut parts = day.rsplit('-');
        let (day, month) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let month = month.parse::<usize>().ok().and_then(|month| MONTHS.get(month.checked_sub(1)?));
        let time = time.split('.').next().unwrap_or_default();
        write!(f, "{} {} {time}", day.trim_start_matches('0'), month.unwrap_or(&""))
    }
}

/// A value, or a reference to one. Templates pass references of several depths.
pub(crate) trait Plain<T> {
    fn plain(self) -> T;
}

impl<T: Copy> Plain<T> for T {
    fn plain(self) -> T {
        self
    }
}

impl<T: Copy> Plain<T> for &T {
    fn plain(self) -> T {
        *self
    }
}

impl<T: Copy> Plain<T> for &&T {
    fn plain(self) -> T {
        **self
    }
}

impl<T: Copy> Plain<T> for &&&T {
    fn plain(self) -> T {
        ***self
    }
}

pub(crate) fn time(at: impl Plain<Timestamp>) -> Time {
    Time(at.plain())
}

/// Writes a time with milliseconds, such as `29 Nov 19:42:18.120`, for steps that follow each other closely.
pub(crate) fn clock(at: impl Plain<Timestamp>) -> String {
    let at = at.plain();
    let machine = at.to_string();
    let fraction = machine.split_once('.').map_or("000", |(_, rest)| rest.trim_end_matches('Z'));
    format!("{}.{fraction}", Time(at))
}

/// A number with separators between thousands, and `+` if it stops at a maximum.
pub(crate) fn number(number: impl Plain<usize>, more: impl Plain<bool>) -> String {
    let digits = number.plain().to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if more.plain() { text + "+" } else { text }
}

pub(crate) fn count(count: impl Plain<Count>) -> String {
    let count = count.plain();
    number(count.number, count.more)
}

/// Writes a number with its noun, such as `1 delivery` or `412 deliveries`.
pub(crate) fn counted(count: Count, one: &str, many: &str) -> String {
    let noun = if count.number == 1 && !count.more { one } else { many };
    format!("{} {noun}", self::count(count))
}

pub(crate) fn channel(channel: impl Plain<Channel>) -> &'static str {
    match channel.plain() {
        Channel::InApp => "Inbox",
        Channel::Email => "Email",
        Channel::WebPush => "Web push",
        Channel::MobilePush => "Mobile push",
        Channel::Sms => "SMS",
        other => other.as_str(),
    }
}

/// Name of a kind of providers.
pub(crate) fn kind(name: &str) -> String {
    let known = match name {
        "smtp" => "SMTP server",
        "postmark" => "Postmark",
        "vapid" => "Push services of browsers (VAPID)",
        "apns" => "Apple Push Notification service",
        "fcm" => "Firebase Cloud Messaging",
        "twilio" => "Twilio",
        "http" => "HTTP API",
        "smpp" => "SMPP",
        other => other,
    };
    known.to_owned()
}

/// Writes the name of a setting as words: `dkim.privateKey` as `DKIM private key`.
pub(crate) fn label(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter == '.' || letter.is_uppercase() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase().filter(|letter| *letter != '.'));
    }
    let words = words.split_whitespace().map(|word| match word {
        "api" | "ca" | "url" | "id" | "dkim" | "ehlo" | "sid" | "cors" | "hmac" => word.to_uppercase(),
        word => word.to_owned(),
    });
    let text = words.collect::<Vec<_>>().join(" ");
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Writes a text without an end as a sentence.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.trim_end_matches('.').chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

/// Name of an action on a provider.
pub(crate) fn change(action: &str) -> &'static str {
    match action {
        "provider.set" => "Saved",
        "provider.enable" => "Enabled",
        "provider.disable" => "Disabled",
        "provider.remove" => "Removed",
        _ => "Changed",
    }
}

/// Class of a status in the stylesheet.
pub(crate) fn tone(status: impl Plain<Status>) -> &'static str {
    match status.plain() {
        Status::Sent | Status::Delivered => "good",
        Status::Queued | Status::Sending => "calm",
        Status::Retrying | Status::Waiting => "warn",
        Status::Failed | Status::Parked | Status::Unknown => "bad",
        Status::Skipped | Status::Cancelled | Status::Expired => "off",
    }
}

/// Sign of a status, so that it does not depend on colour.
pub(crate) fn sign(status: impl Plain<Status>) -> &'static str {
    match tone(status) {
        "good" => "✓",
        "bad" => "✕",
        "warn" => "↻",
        "calm" => "•",
        _ => "–",
    }
}

/// Writes a machine-readable name as words: `target_gone` as `target gone`.
pub(crate) fn words(name: &str) -> String {
    name.replace('_', " ")
}

/// Writes a number of milliseconds, such as `340 ms` or `2 m 5 s`.
pub(crate) fn millis(millis: impl Plain<u64>) -> String {
    let millis = millis.plain();
    let seconds = millis / 1_000;
    match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
        _ if millis < 10_000 => format!("{millis} ms"),
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} m {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} m"),
    }
}

/// Parses a duration such as `30m`, `2h` or `7d`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let unit = text.chars().last()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return None,
    };
    let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
    number
        .checked_mul(seconds)
        .filter(|seconds| (1..=3_660 * 86_400).contains(seconds))
        .map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_separators_and_times_have_words() {
        assert_eq!(number(999, false), "999");
        assert_eq!(number(10_000, true), "10,000+");
        assert_eq!(number(1_234_567, false), "1,234,567");
        assert_eq!(Time(Timestamp::from_millis(1_764_445_338_000)).to_string(), "29 Nov 19:42:18");
        assert_eq!(clock(Timestamp::from_millis(1_764_445_338_120)), "29 Nov 19:42:18.120");
        assert_eq!(counted(Count { number: 1, more: false }, "send", "sends"), "1 send");
    }

    #[test]
    fn durations_have_one_unit_and_are_limited() {
        let written = [0, 9_999, 10_000, 125_000, 7_260_000].map(|number: u64| millis(number));
        assert_eq!(written, ["0 ms", "9999 ms", "10 s", "2 m 5 s", "2 h 1 m"]);
        assert_eq!(duration("2h"), Some(Duration::from_secs(7_200)));
        for refused in ["", "h", "2", "0s", "2y", "-1h", "99999999999999999d"] {
            assert_eq!(duration(refused), None, "{refused}");
        }
    }
}
