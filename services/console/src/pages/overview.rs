//! The overview of an app, and the list of apps.

use std::sync::Arc;

use actix_web::http::StatusCode;
use askama::Template;
use domain::Status;
use operations::overview::{Count, MINUTES, Overview};

use super::installation;
use super::shell::{Verdict, Visit};
use crate::answer::{Answer, Part, page, part};
use crate::console::Console;
use crate::text;

/// Height of the chart, in its own units.
const HEIGHT: u32 = 48;
/// Width of a bar of the chart, with the gap to the next.
const STEP: usize = 10;
const MOST_CAUSES: usize = 5;

#[derive(Template)]
#[template(path = "apps.html")]
struct AppsPage {
    visit: Visit,
}

pub(crate) fn apps(_: &Console, visit: Visit) -> Answer {
    page(StatusCode::OK, &AppsPage { visit })
}

struct Bar {
    x: usize,
    y: u32,
    height: u32,
}

struct ChannelRow {
    name: &'static str,
    sent: usize,
    open: usize,
    failed: usize,
    /// Widths of the segments of the bar, of 100.
    widths: [usize; 4],
}

struct Shown {
    overview: Arc<Overview>,
    verdict: Verdict,
    /// True if the verdict is about the installation.
    has_trouble: bool,
    bars: Vec<Bar>,
    peak: u32,
    channels: Vec<ChannelRow>,
}

impl Shown {
    /// Returns true if the app has neither a provider nor figures, so that its setup is next.
    fn is_new(&self) -> bool {
        let Overview { accepted, parked, providers, states, .. } = &*self.overview;
        providers.is_empty() && states.is_empty() && accepted.number == 0 && parked.number == 0
    }
}

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    visit: Visit,
    read: Part<Shown>,
}

pub(crate) async fn overview(console: &Console, visit: Visit) -> Answer {
    let caller = &visit.operator.caller;
    let read = console.overviews.of_app(caller, visit.app()?.id).await;
    let trouble = if visit.sees_installation() {
        part(console.installations.read(caller).await)?.ok().and_then(|found| installation::trouble(&found))
    } else {
        None
    };
    let has_trouble = trouble.is_some();
    let read = part(read)?.map(|overview| Shown {
        verdict: trouble.unwrap_or_else(|| verdict(&overview)),
        has_trouble,
        bars: bars(&overview.per_minute),
        peak: overview.per_minute.iter().copied().max().unwrap_or(0),
        channels: channels(&overview),
        overview,
    });
    page(StatusCode::OK, &OverviewPage { visit, read })
}

fn verdict(overview: &Overview) -> Verdict {
    let parked = overview.parked;
    let retrying = overview.with_status(&[Status::Retrying]);
    let accepted = text::counted(overview.accepted, "send", "sends");
    let accepted = format!("{accepted} accepted in the last hour.");
    let off = overview.providers.iter().filter(|provider| !provider.enabled).count();
    if parked.number > 0 {
        let cause = overview.parked_causes.first();
        let cause = cause.map(|cause| format!(" Most often: {}.", cause.cause)).unwrap_or_default();
        let verb = if parked.number == 1 { "is" } else { "are" };
        let head = format!("{} {verb} parked.", text::counted(parked, "message", "messages"));
        return Verdict {
            tone: "bad",
            sign: "▲",
            head,
            text: format!("Retries are exhausted; nothing more happens until a redrive.{cause}"),
        };
    }
    if retrying > 0 {
        let count = Count { number: retrying, more: false };
        let head = format!("{} being retried.", text::counted(count, "delivery is", "deliveries are"));
        return Verdict { tone: "warn", sign: "↻", head, text: accepted };
    }
    if overview.providers.is_empty() || off == overview.providers.len() {
        let text = format!("{accepted} Without an enabled provider, messages reach only the inbox.");
        return Verdict { tone: "calm", sign: "○", head: "No provider is enabled.".to_owned(), text };
    }
    Verdict {
        tone: "good",
        sign: "●",
        head: "All well.".to_owned(),
        text: format!("{accepted} Nothing is parked."),
    }
}

fn bars(per_minute: &[u32]) -> Vec<Bar> {
    let peak = per_minute.iter().copied().max().unwrap_or(0).max(1);
    let bar = |(place, &number): (usize, &u32)| {
        let height = if number == 0 { 1 } else { (number * HEIGHT / peak).max(3) };
        Bar { x: place * STEP, y: HEIGHT - height, height }
    };
    per_minute.iter().enumerate().map(bar).collect()
}

fn channels(overview: &Overview) -> Vec<ChannelRow> {
    let row = |(&channel, counts): (&domain::Channel, &std::collections::BTreeMap<Status, usize>)| {
        let with = |tones: &[&str]| -> usize {
            counts
                .iter()
                .filter(|(status, _)| tones.contains(&text::tone(**status)))
                .map(|(_, number)| number)
                .sum()
        };
        let (sent, open, failed, other) =
            (with(&["good"]), with(&["calm", "warn"]), with(&["bad"]), with(&["off"]));
        let total = sent + open + failed + other;
        let width = |number: usize| number * 100 / total.max(1);
        let widths = [width(sent), width(open), width(failed), width(other)];
        ChannelRow { name: text::channel(channel), sent, open, failed, widths }
    };
    overview.states.iter().map(row).collect()
}
