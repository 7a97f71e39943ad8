//! The processes of the installation, and the work that waits for them.

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::StatusCode;
use askama::Template;
use operations::installation::{Installation, Waiting, Work};

use super::shell::{Verdict, Visit};
use crate::answer::{Answer, Part, page, part};
use crate::console::Console;
use crate::text;

struct BacklogRow {
    name: String,
    service: &'static str,
    number: String,
    /// Age of the oldest; None if nothing waits.
    oldest: Option<String>,
    /// Used capacity in percent.
    fill: Option<u32>,
    /// Status in the stylesheet, its sign and its name.
    state: (&'static str, &'static str, &'static str),
}

struct Shown {
    installation: Arc<Installation>,
    verdict: Verdict,
    backlogs: Vec<BacklogRow>,
}

#[derive(Template)]
#[template(path = "installation.html")]
struct InstallationPage {
    visit: Visit,
    read: Part<Shown>,
}

pub(crate) async fn show(console: &Console, visit: Visit) -> Answer {
    let read = part(console.installations.read(&visit.operator.caller).await)?;
    let read = read.map(|installation| Shown {
        verdict: trouble(&installation).unwrap_or_else(|| well(&installation)),
        backlogs: installation.backlogs.iter().map(row).collect(),
        installation,
    });
    page(StatusCode::OK, &InstallationPage { visit, read })
}

fn well(installation: &Installation) -> Verdict {
    let number = installation.processes.len();
    let processes = if number == 1 { "process" } else { "processes" };
    Verdict {
        tone: "good",
        sign: "●",
        head: "Every service runs.".to_owned(),
        text: format!("{number} {processes} answered. No work is late, and no stream is nearly full."),
    }
}

/// Returns what an operator should know first, if anything is wrong.
pub(crate) fn trouble(installation: &Installation) -> Option<Verdict> {
    if let Some(missing) = installation.missing.first() {
        let others = installation.missing.len() - 1;
        let others = if others == 0 { String::new() } else { format!(" {others} more are missing.") };
        return Some(Verdict {
            tone: "bad",
            sign: "▲",
            head: format!("No process of {missing} answers."),
            text: format!(
                "Is “tidings run {missing}” running, and does it reach NATS? What it would do waits.{others}"
            ),
        });
    }
    let backlogs = &installation.backlogs;
    if let Some(full) = backlogs.iter().find(|waiting| waiting.is_nearly_full()) {
        return Some(Verdict {
            tone: "bad",
            sign: "▲",
            head: format!("{} are nearly full.", name(full.work)),
            text: "At 100 % the API refuses sends until the streams have room.".to_owned(),
        });
    }
    let late = backlogs.iter().filter(|waiting| waiting.is_late()).max_by_key(|waiting| waiting.oldest)?;
    Some(Verdict {
        tone: "warn",
        sign: "↻",
        head: format!("{} are late by {}.", name(late.work), age(late.oldest)),
        text: format!(
            "More processes of {} help if the processor or the provider has room.",
            late.work.service()
        ),
    })
}

fn row(waiting: &Waiting) -> BacklogRow {
    let number = usize::try_from(waiting.number).unwrap_or(usize::MAX);
    BacklogRow {
        name: name(waiting.work),
        service: waiting.work.service(),
        number: text::number(number, false),
        oldest: (number > 0).then(|| age(waiting.oldest)),
        fill: waiting.fill.map(percent),
        state: match (waiting.is_nearly_full(), waiting.is_late()) {
            (true, _) => ("bad", "▲", "nearly full"),
            (false, true) => ("warn", "↻", "late"),
            (false, false) => ("good", "✓", "on time"),
        },
    }
}

fn name(work: Work) -> String {
    match work {
        Work::Planning => "Sends to plan".to_owned(),
        Work::Delivery(channel) => format!("{} deliveries", text::channel(channel)),
        Work::Inboxes => "Inbox changes".to_owned(),
        Work::Outcomes => "Outcomes for webhooks".to_owned(),
        Work::Timers => "Timers that are due".to_owned(),
        Work::Webhooks => "Webhook calls".to_owned(),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share from 0 to 1")]
fn percent(fill: f64) -> u32 {
    (fill.clamp(0.0, 1.0) * 100.0).round() as u32
}

fn age(age: Duration) -> String {
    match age.as_secs() {
        0 => "< 1 s".to_owned(),
        seconds @ 1..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}
