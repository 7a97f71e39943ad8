//! The sends of an app, and one send.

use actix_web::http::StatusCode;
use askama::Template;
use domain::target::masked;
use domain::{Channel, SendId, Status};
use operations::Permission;
use operations::sends::recent;
use service_kit::clock;
use store::sends::list::ListedSend;
use store::sends::pairs::{PairFilter, PairPosition, PairStatus};
use store::sends::recent::SendOutcome;
use store::sends::status::RequestSummary;
use uuid::Uuid;

use super::shell::{PersonLink, Visit};
use crate::answer::{Answer, Part, Refusal, page, part};
use crate::console::Console;
use crate::query::{Pairs, Search};
use crate::route::encoded;
use crate::text;

pub(crate) const PAGE: usize = 50;
const QUALIFIERS: &[&str] = &["category", "template", "since", "state"];
const OF_A_SEND: &[&str] = &["recipient", "channel", "status"];
const STATES: [(&str, State); 3] =
    [("scheduled", State::Scheduled), ("cancelled", State::Cancelled), ("expanding", State::Expanding)];

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Scheduled,
    Cancelled,
    Expanding,
}

struct SendRow {
    send: ListedSend,
    path: String,
    outcome: Vec<Share>,
}

/// A part of the outcome of a send.
struct Share {
    tone: &'static str,
    sign: &'static str,
    text: String,
}

#[derive(Template)]
#[template(path = "sends.html")]
struct SendsPage {
    visit: Visit,
    search: Search,
    rows: Part<Vec<SendRow>>,
    next: Option<String>,
}

pub(crate) async fn list(console: &Console, visit: Visit, query: &Pairs) -> Answer {
    let mut search = Search::read(query, QUALIFIERS);
    let state = search.one_of("state", &STATES);
    let since = since(&mut search);
    let before = query.text("before").and_then(|text| text.parse().ok()).map(SendId);
    let (category, template) =
        (search.value("category").map(str::to_owned), search.value("template").map(str::to_owned));
    let words: Vec<String> = search.words.iter().map(|word| word.to_lowercase()).collect();
    let now = clock::now();
    let is_wanted = |send: &ListedSend| {
        let title = send.title.as_deref().unwrap_or_default().to_lowercase();
        words.iter().all(|word| title.contains(word) || send.send_id.to_string().starts_with(word))
            && category.as_deref().is_none_or(|wanted| send.category.as_deref() == Some(wanted))
            && template
                .as_deref()
                .is_none_or(|wanted| send.template.as_ref().is_some_and(|(id, _)| id == wanted))
            && match state {
                None => true,
                Some(State::Scheduled) => send.send_at.is_some_and(|at| at > now),
                Some(State::Cancelled) => send.cancelled,
                Some(State::Expanding) => send.expanding,
            }
    };
    let caller = &visit.operator.caller;
    let read =
        recent::page(&console.operations, caller, visit.app()?.id, (before, since), PAGE, is_wanted).await;
    let read = part(read)?;
    let next = read.as_ref().ok().and_then(|page| page.next);
    let next = next.map(|next| visit.path(&format!("/sends?q={}&before={next}", encoded(&search.written()))));
    let rows = read.map(|page| {
        let row = |(send, outcome): (ListedSend, SendOutcome)| SendRow {
            path: visit.send_path(&send.send_id),
            outcome: shares(&outcome),
            send,
        };
        page.sends.into_iter().map(row).collect()
    });
    page(StatusCode::OK, &SendsPage { visit, search, rows, next })
}

/// Reads `since:2h`.
pub(crate) fn since(search: &mut Search) -> Option<domain::Timestamp> {
    let text = search.value("since")?.to_owned();
    let duration = text::duration(&text);
    if duration.is_none() {
        search.problems.push(format!("since:{text} is not a duration. Use 30m, 2h or 7d."));
    }
    duration.map(|duration| clock::now() - duration)
}

fn shares(outcome: &SendOutcome) -> Vec<Share> {
    let most = usize::try_from(recent::MOST_COUNTED).unwrap_or(usize::MAX);
    let mut tones: Vec<(&'static str, &'static str, usize)> = Vec::new();
    for (status, number) in outcome.counts.values().flatten() {
        let number = usize::try_from(*number).unwrap_or(0);
        let (tone, sign) = (text::tone(*status), text::sign(*status));
        match tones.iter_mut().find(|(known, ..)| *known == tone) {
            Some((_, _, sum)) => *sum += number,
            None => tones.push((tone, sign, number)),
        }
    }
    let order = |tone: &str| ["bad", "warn", "calm", "good", "off"].iter().position(|known| *known == tone);
    tones.sort_by_key(|(tone, ..)| order(tone));
    let named = |tone: &str| match tone {
        "bad" => "failed",
        "warn" => "retrying",
        "calm" => "under way",
        "good" => "sent",
        _ => "skipped",
    };
    let share = |(tone, sign, sum): (&'static str, &'static str, usize)| {
        let number = text::number(sum.min(most), sum > most);
        Share { tone, sign, text: format!("{number} {}", named(tone)) }
    };
    let mut shares: Vec<Share> = tones.into_iter().map(share).collect();
    if outcome.inbox > 0 {
        let number = usize::try_from(outcome.inbox).unwrap_or(0);
        let number = text::number(number, outcome.inbox >= recent::MOST_COUNTED);
        shares.push(Share { tone: "good", sign: "✓", text: format!("{number} inbox") });
    }
    shares
}

struct PairRow {
    pair: PairStatus,
    /// True if the row above is of the same recipient.
    is_same: bool,
    /// None if the recipient was erased.
    person: Option<PersonLink>,
    /// Path of the page that explains the send for the recipient.
    explained: String,
    /// Masked.
    target: Option<String>,
    answer: Option<String>,
}

struct Cell {
    status: Status,
    number: i64,
}

#[derive(Template)]
#[template(path = "send.html")]
struct SendPage {
    visit: Visit,
    id: SendId,
    curl: Option<String>,
    summary: RequestSummary,
    send: Option<ListedSend>,
    plan: Vec<(Channel, Vec<Cell>)>,
    search: Search,
    rows: Part<Vec<PairRow>>,
    next: Option<String>,
}

pub(crate) fn send_id(text: &str) -> Result<SendId, Refusal> {
    const MISSING: Refusal = Refusal::NotFound("This is not the id of a send.");
    Ok(SendId(text.parse::<Uuid>().map_err(|_| MISSING)?))
}

pub(crate) async fn send(console: &Console, visit: Visit, id: &str, query: &Pairs) -> Answer {
    let id = send_id(id)?;
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    let (summary, send) = recent::find(&console.operations, caller, app, id).await?;
    let mut search = Search::read(query, OF_A_SEND);
    let channels: Vec<_> = Channel::DELIVERED.iter().map(|channel| (channel.as_str(), *channel)).collect();
    let statuses: Vec<_> = Status::ALL.iter().map(|status| (status.as_str(), *status)).collect();
    let (channel, status) = (search.one_of("channel", &channels), search.one_of("status", &statuses));
    let recipient = search.value("recipient").map(str::to_owned);
    let filter = PairFilter { recipient: recipient.as_deref(), channel, status, recipient_index: None };
    let after = query.text("after").and_then(position);
    let read = part(recent::pairs(&console.operations, caller, (app, id), filter, after, PAGE).await)?;
    let next = read.as_ref().ok().and_then(|(_, next)| *next).map(|next| {
        let after = format!("{}_{}_{}", next.recipient_index, next.channel, next.id);
        let query = encoded(&search.written());
        visit.path(&format!("/sends/{id}?q={query}&after={after}"))
    });
    let rows = read.map(|(pairs, _)| {
        let mut above = None;
        let row = |pair: PairStatus| PairRow {
            is_same: above.replace(pair.position.recipient_index) == Some(pair.position.recipient_index),
            person: pair.recipient.as_deref().map(|identifier| visit.person(identifier)),
            explained: visit.explain_path(&id, pair.position.recipient_index),
            target: pair.target.as_deref().map(masked),
            answer: pair.attempts.last().map(|attempt| {
                format!("{} {}", attempt.provider_code, attempt.provider_message).trim().to_owned()
            }),
            pair,
        };
        pairs.into_iter().map(row).collect()
    });
    let plan = summary.counts.iter().map(|(channel, counts)| {
        let cells = counts.iter().map(|(&status, &number)| Cell { status, number });
        (*channel, cells.collect())
    });
    let plan = plan.collect();
    let curl = visit.curl(&format!("/v3/requests/{id}"));
    page(StatusCode::OK, &SendPage { visit, id, curl, summary, send, plan, search, rows, next })
}

fn position(text: &str) -> Option<PairPosition> {
    let mut parts = text.split('_');
    let recipient_index = parts.next()?.parse().ok()?;
    let channel = parts.next()?.parse().ok()?;
    let id = parts.next()?.parse().ok()?;
    Some(PairPosition { recipient_index, channel, id })
}
