//! Lists of an app's sends, and the deliveries that wait.

use std::collections::HashSet;

use domain::{Action, AppId, Channel, SendId, Status, Timestamp, UserNumber};
use store::deliveries::waiting::{WaitingCause, WaitingDeliveries};
use store::sends::list::{ListedSend, SendRange, SendsOf};
use store::sends::pairs::{PairFilter, PairStatus};
use store::sends::status::RequestSummary;

use crate::sends::recent;
use crate::waiting::database;
use crate::{Caller, Object, OperationError, Operations, Permission};

/// Sends that one query reads.
const READ: i64 = 100;
/// Sends that a call examines. If fewer match than it wants, the next page continues with the next send.
const EXAMINED: usize = 2_000;
/// The same, if the pairs of each send are compared.
const COMPARED: usize = 200;
/// More pairs than a recipient can have in a send: an inbox item, and a delivery for each target.
pub(crate) const PAIRS: i64 = 200;
/// Waiting deliveries that are counted.
pub const MOST_WAITING: i64 = 10_001;

/// Filter of sends. A property that is `None` matches all sends.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendFilter<'a> {
    pub recipient: Option<&'a str>,
    pub category: Option<&'a str>,
    /// Matches a send if the recipient has a delivery, item or skipped channel with this status. Without a recipient, the first 1,000
    /// deliveries and recipients of each send are compared.
    pub status: Option<Status>,
    pub since: Option<Timestamp>,
    /// Exclusive.
    pub before: Option<SendId>,
}

/// Part of a list of sends, latest first.
#[derive(Debug, Default)]
pub struct SendPage {
    pub sends: Vec<ListedSend>,
    /// Start of the next page; None on the last page. A page may have fewer sends than the limit, or none, although more follow.
    pub next: Option<SendId>,
    /// Number of sends that were compared with the filter.
    pub examined: usize,
    /// Time at which the earliest of them was accepted.
    pub reached: Option<Timestamp>,
}

/// Lists at most `limit` sends of an app.
pub async fn list(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    filter: SendFilter<'_>,
    limit: usize,
) -> Result<SendPage, OperationError> {
    caller.may(Permission::View, app)?;
    let user = match filter.recipient {
        Some(recipient) => {
            let found = database(operations.store.directory().find_user(app, recipient)).await?;
            found.map(|user| user.number)
        }
        None => None,
    };
    list_of(operations, app, filter, user, limit).await
}

/// Lists sends of an app for a user who was looked up before.
pub(crate) async fn list_of(
    operations: &Operations,
    app: AppId,
    filter: SendFilter<'_>,
    user: Option<UserNumber>,
    limit: usize,
) -> Result<SendPage, OperationError> {
    let of = match (user, filter.recipient) {
        (Some(user), _) => SendsOf::User(user),
        (None, Some(name)) => SendsOf::Unknown(name),
        (None, None) => SendsOf::All,
    };
    let most = if filter.status.is_some() { COMPARED } else { EXAMINED };
    let mut page = SendPage { next: filter.before, ..SendPage::default() };
    loop {
        let range = SendRange { before: page.next, since: filter.since, limit: READ };
        let read = database(operations.store.sends().list_sends(app, of, range)).await?;
        let is_last = (read.len() as i64) < READ;
        let candidates: Vec<ListedSend> = read
            .iter()
            .filter(|send| filter.category.is_none() || send.category.as_deref() == filter.category)
            .cloned()
            .collect();
        let wanted = match filter.status {
            Some(status) => Some(matching(operations, app, &candidates, status).await?),
            None => None,
        };
        page.examined += read.len();
        page.reached = read.last().map(|send| send.accepted_at).or(page.reached);
        page.next = read.last().map(|send| send.send_id);
        for send in candidates {
            if wanted.as_ref().is_some_and(|wanted| !wanted.contains(&send.send_id)) {
                continue;
            }
            if page.sends.len() == limit {
                page.next = page.sends.last().map(|send| send.send_id);
                return Ok(page);
            }
            page.sends.push(send);
        }
        if is_last {
            return Ok(SendPage { next: None, ..page });
        }
        if page.examined >= most {
            return Ok(page);
        }
    }
}

/// Returns those of the sends that have the status, for their recipient if they are listed for one.
async fn matching(
    operations: &Operations,
    app: AppId,
    sends: &[ListedSend],
    status: Status,
) -> Result<HashSet<SendId>, OperationError> {
    let mut found = HashSet::new();
    let mut of_all = Vec::new();
    for send in sends {
        match send.recipient_index {
            Some(index) => {
                let pairs = pairs_of(operations, app, send.send_id, index).await?;
                if pairs.iter().any(|pair| pair.status == status) {
                    found.insert(send.send_id);
                }
            }
            None => of_all.push(send.send_id),
        }
    }
    if !of_all.is_empty() {
        found.extend(database(operations.store.sends().sends_with_status(app, &of_all, status)).await?);
    }
    Ok(found)
}

/// Returns what became of a send for the recipient at a position, in the order of the channels.
pub(crate) async fn pairs_of(
    operations: &Operations,
    app: AppId,
    send: SendId,
    recipient_index: i32,
) -> Result<Vec<PairStatus>, OperationError> {
    let filter = PairFilter { recipient_index: Some(recipient_index), ..PairFilter::default() };
    let mut pairs = database(operations.store.sends().list_pairs(app, send, filter, None, PAIRS)).await?;
    pairs.sort_by_key(|pair| pair.position.channel);
    Ok(pairs)
}

/// Groups the deliveries that wait for a provider by app, channel and cause. Counts at most 10,001 of them.
pub async fn waiting(
    operations: &Operations,
    caller: &Caller,
    app: Option<AppId>,
) -> Result<Vec<WaitingDeliveries>, OperationError> {
    caller.may(Permission::View, app)?;
    Ok(operations.store.deliveries().list_waiting(app, MOST_WAITING).await?)
}

/// Makes the next attempt of the deliveries that wait for a cause due now, of at most 10,000 of them, and returns their number. While the
/// provider may not be called, they wait again.
pub async fn release(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    cause: &WaitingCause,
) -> Result<u64, OperationError> {
    let actor = caller.authorize(Action::WaitingRelease, app)?;
    let deliveries = operations.store.deliveries();
    let released = database(deliveries.release_waiting(app, cause, MOST_WAITING - 1, actor)).await?;
    tracing::info!(%app, channel = %cause.channel, reason = cause.reason.as_str(), released, "released waiting deliveries");
    Ok(released)
}

/// A send, and how much of it a cancellation would stop.
#[derive(Debug)]
pub struct Cancellable {
    pub summary: RequestSummary,
    pub send: Option<ListedSend>,
    /// Emails, pushes and SMS that no provider has received yet.
    pub waiting: i64,
    /// Recipients that are not planned yet.
    pub unplanned: i64,
}

/// Returns what a cancellation of a send would stop now.
///
/// # Errors
/// Returns [`Object::Request`] if the app has no such send, or if it was not planned yet.
pub async fn cancellable(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    send: SendId,
) -> Result<Cancellable, OperationError> {
    caller.may(Permission::CancelRequests, app)?;
    let (summary, described) = recent::find(operations, caller, app, send).await?;
    let is_open = |status: &Status| Status::WAITING.contains(status) || *status == Status::Waiting;
    let external = summary.counts.iter().filter(|(channel, _)| **channel != Channel::InApp);
    let waiting = external.flat_map(|(_, counts)| counts).filter(|(status, _)| is_open(status));
    let waiting = waiting.map(|(_, number)| number).sum();
    let unplanned = i64::from(summary.recipients).saturating_sub(summary.planned).max(0);
    Ok(Cancellable { waiting, unplanned, send: described, summary })
}

/// Cancels the deliveries of a send that no provider has received yet, and returns their number.
///
/// # Errors
/// Returns [`Object::Request`] if the app has no such send, or if it was not planned yet.
pub async fn cancel(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    send: SendId,
) -> Result<u64, OperationError> {
    let actor = caller.authorize(Action::RequestCancel, app)?;
    let known = database(operations.store.sends().find_acceptance(app, send)).await?;
    known.ok_or(OperationError::NotFound(Object::Request))?;
    let cancelled = database(operations.store.deliveries().cancel_request(app, send, actor)).await?;
    tracing::info!(%app, send_id = %send, cancelled, "cancelled a send");
    Ok(cancelled)
}
