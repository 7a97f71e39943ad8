//! Parked messages, and redriving them.

use std::collections::BTreeMap;
use std::fmt;

use domain::{Action, AppId, Channel, DeliveryId, Timestamp};
use store::deliveries::recent::{LatestAnswer, ParkedMark, ParkedMessage};
use store::deliveries::redrive::{ParkedEntry, ParkedFilter, ParkedPosition, position_after};
use store::sends::pairs::{AttemptRecord, PairFilter};
use uuid::Uuid;

use crate::waiting::database;
use crate::{Caller, Object, OperationError, Operations, Permission};

/// Maximum number of messages per transaction.
const PAGE: i64 = 100;
/// Maximum number of messages that a page of a search reads.
const SEARCHED: i64 = 1_000;
/// Maximum number of messages in a report.
const SHOWN: usize = 20;

/// Subject of a parked message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ParkedKind {
    /// A delivery over this channel.
    Job(Channel),
    /// A send that could not be planned.
    Send,
    /// A message of a stream that this release does not know.
    Unknown,
}

impl ParkedKind {
    #[must_use]
    pub fn of(parked: &ParkedEntry) -> ParkedKind {
        match (parked.channel(), parked.stream) {
            (Some(channel), _) => ParkedKind::Job(channel),
            (None, Some(_)) => ParkedKind::Send,
            (None, None) => ParkedKind::Unknown,
        }
    }
}

impl fmt::Display for ParkedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParkedKind::Job(channel) => channel.fmt(f),
            ParkedKind::Send => f.write_str("send"),
            ParkedKind::Unknown => f.write_str("unknown"),
        }
    }
}

/// A parked message with the attempts to make its delivery.
#[derive(Debug)]
pub struct ParkedDetails {
    pub parked: ParkedEntry,
    pub attempts: Vec<AttemptRecord>,
}

/// Result of a redrive or of its preview.
#[derive(Debug, Default)]
pub struct RedriveReport {
    pub redriven: u64,
    /// Numbers of redriven messages.
    pub counts: BTreeMap<(Option<AppId>, ParkedKind), u64>,
    /// Numbers of messages that stay parked, by reason.
    pub skipped: BTreeMap<&'static str, u64>,
    /// The first messages, at most 20, redriven or skipped.
    pub first: Vec<ParkedEntry>,
}

impl RedriveReport {
    fn add(&mut self, page: Vec<ParkedEntry>) {
        for parked in page {
            match parked.skip {
                Some(skip) => *self.skipped.entry(skip.as_str()).or_default() += 1,
                None => {
                    self.redriven += 1;
                    *self.counts.entry((parked.app, ParkedKind::of(&parked))).or_default() += 1;
                }
            }
            if self.first.len() < SHOWN {
                self.first.push(parked);
            }
        }
    }
}

/// Lists at most `limit` parked messages behind a position, earliest first.
pub async fn list(
    operations: &Operations,
    caller: &Caller,
    filter: &ParkedFilter,
    after: Option<ParkedPosition>,
    limit: i64,
) -> Result<Vec<ParkedEntry>, OperationError> {
    caller.may(Permission::View, filter.app)?;
    Ok(operations.store.deliveries().list_parked(filter, after, limit).await?)
}

/// Messages of a search in the parked messages of an app.
#[derive(Debug, Default)]
pub struct ParkedPage {
    pub messages: Vec<ParkedMessage>,
    /// The answers to the last attempts of the deliveries among the messages.
    pub answers: BTreeMap<DeliveryId, LatestAnswer>,
    /// Position from which the search continues; None at the end.
    pub next: Option<ParkedMark>,
}

/// Lists at most `limit` parked messages of an app, latest first: those for which `is_wanted` returns true, among the next 1,000
/// after a position.
pub async fn page(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    before: Option<ParkedMark>,
    limit: usize,
    is_wanted: impl Fn(&ParkedMessage) -> bool,
) -> Result<ParkedPage, OperationError> {
    caller.may(Permission::View, app)?;
    let deliveries = operations.store.deliveries();
    let read = database(deliveries.parked_page(app, before, SEARCHED)).await?;
    let is_full = read.len() == usize::try_from(SEARCHED).unwrap_or(usize::MAX);
    let last = read.last().map(|message| message.position);
    let mut messages: Vec<_> = read.into_iter().filter(is_wanted).take(limit + 1).collect();
    let next = if messages.len() > limit {
        messages.truncate(limit);
        messages.last().map(|message| message.position)
    } else {
        last.filter(|_| is_full)
    };
    let ids: Vec<_> = messages.iter().filter_map(|message| message.delivery).collect();
    let answers = database(deliveries.latest_answers(app, &ids)).await?;
    let answers = answers.into_iter().map(|answer| (answer.id, answer)).collect();
    Ok(ParkedPage { messages, answers, next })
}

/// Finds a parked message by the id of its delivery or its own id, with the attempts to make the delivery.
///
/// # Errors
/// Returns [`Object::ParkedMessage`] if there is no such message, or if the caller may not see its app.
pub async fn find(
    operations: &Operations,
    caller: &Caller,
    id: Uuid,
) -> Result<ParkedDetails, OperationError> {
    let by_delivery = ParkedFilter { delivery: Some(DeliveryId(id)), ..ParkedFilter::default() };
    let by_id = ParkedFilter { id: Some(id), ..ParkedFilter::default() };
    let deliveries = operations.store.deliveries();
    let mut found = deliveries.list_parked(&by_delivery, None, 1).await?;
    if found.is_empty() {
        found = deliveries.list_parked(&by_id, None, 1).await?;
    }
    let visible = found.into_iter().find(|parked| caller.may(Permission::View, parked.app).is_ok());
    let parked = visible.ok_or(OperationError::NotFound(Object::ParkedMessage))?;
    let attempts = attempts(operations, &parked).await?;
    Ok(ParkedDetails { parked, attempts })
}

async fn attempts(
    operations: &Operations,
    parked: &ParkedEntry,
) -> Result<Vec<AttemptRecord>, OperationError> {
    let (Some(app), Some(send_id), Some(_)) = (parked.app, parked.send_id, parked.delivery) else {
        return Ok(Vec::new());
    };
    let filter = PairFilter {
        recipient: parked.recipient.as_deref(),
        channel: parked.channel(),
        status: None,
        recipient_index: None,
    };
    let listed = operations.store.sends().list_pairs(app, send_id, filter, None, PAGE).await?;
    let delivery = listed.into_iter().find(|delivery| delivery.id == parked.delivery);
    Ok(delivery.map(|delivery| delivery.attempts).unwrap_or_default())
}

/// Redrives parked messages in pages, each in a transaction, and calls `progress` after each page. Messages that are no longer
/// useful stay parked.
///
/// # Errors
/// Returns an error if the database fails. Messages of earlier pages stay redriven.
pub async fn redrive(
    operations: &Operations,
    caller: &Caller,
    filter: &ParkedFilter,
    now: impl Fn() -> Timestamp,
    mut progress: impl FnMut(&RedriveReport),
) -> Result<RedriveReport, OperationError> {
    let actor = caller.authorize(Action::ParkedRedrive, filter.app)?;
    let deliveries = operations.store.deliveries();
    let mut report = RedriveReport::default();
    let mut after = None;
    loop {
        let page = deliveries.redrive(filter, after, PAGE, now(), actor).await?;
        let Some(last) = position_after(&page) else { return Ok(report) };
        after = Some(last);
        report.add(page);
        progress(&report);
    }
}

/// Returns the report of a redrive that would run now, and changes nothing.
pub async fn preview(
    operations: &Operations,
    caller: &Caller,
    filter: &ParkedFilter,
) -> Result<RedriveReport, OperationError> {
    caller.may(Permission::Redrive, filter.app)?;
    let deliveries = operations.store.deliveries();
    let mut report = RedriveReport::default();
    let mut after = None;
    loop {
        let page = deliveries.list_parked(filter, after, PAGE).await?;
        let Some(last) = position_after(&page) else { return Ok(report) };
        after = Some(last);
        report.add(page);
    }
}
