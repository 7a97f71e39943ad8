//! The latest sends of an app.

use domain::{AppId, DeliveryId, SendId, Timestamp};
use store::sends::list::{ListedSend, SendRange, SendsOf};
use store::sends::pairs::{PairFilter, PairPosition, PairStatus};
use store::sends::recent::SendOutcome;
use store::sends::status::RequestSummary;
use uuid::Uuid;

use crate::waiting::database;
use crate::{Caller, Object, OperationError, Operations, Permission};

/// Maximum number of sends that a page of a search reads.
const SEARCHED: usize = 1_000;
/// Maximum number of deliveries, and of recipients, that are counted for a send in a list.
pub const MOST_COUNTED: i64 = 1_000;

/// Sends of a search, latest first.
#[derive(Debug, Default)]
pub struct SendPage {
    pub sends: Vec<(ListedSend, SendOutcome)>,
    /// Send after which the search continues; None at the end.
    pub next: Option<SendId>,
}

/// Lists at most `limit` sends of an app, latest first: those for which `is_wanted` returns true, among the next 1,000 before a send.
pub async fn page(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    (before, since): (Option<SendId>, Option<Timestamp>),
    limit: usize,
    is_wanted: impl Fn(&ListedSend) -> bool,
) -> Result<SendPage, OperationError> {
    caller.may(Permission::View, app)?;
    let sends = operations.store.sends();
    let range = SendRange { before, since, limit: i64::try_from(SEARCHED).unwrap_or(i64::MAX) };
    let read = database(sends.list_sends(app, SendsOf::All, range)).await?;
    let last = read.last().map(|send| send.send_id).filter(|_| read.len() == SEARCHED);
    let mut found: Vec<_> = read.into_iter().filter(is_wanted).take(limit + 1).collect();
    let next = if found.len() > limit {
        found.truncate(limit);
        found.last().map(|send| send.send_id)
    } else {
        last
    };
    let ids: Vec<_> = found.iter().map(|send| send.send_id).collect();
    let mut outcomes = database(sends.send_outcomes(app, &ids, MOST_COUNTED)).await?;
    let with_outcome = found.into_iter().map(|send| {
        let outcome = outcomes.remove(&send.send_id).unwrap_or_default();
        (send, outcome)
    });
    Ok(SendPage { sends: with_outcome.collect(), next })
}

/// Returns the state of a send, without waiting for its planning.
///
/// # Errors
/// Returns [`Object::Request`] if the app has no such send, or if it was not planned yet.
pub async fn find(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    send: SendId,
) -> Result<(RequestSummary, Option<ListedSend>), OperationError> {
    caller.may(Permission::View, app)?;
    let sends = operations.store.sends();
    let summary = database(sends.find_request(app, send)).await?;
    let summary = summary.ok_or(OperationError::NotFound(Object::Request))?;
    let next = SendId(Uuid::from_u128(send.0.as_u128().saturating_add(1)));
    let range = SendRange { before: Some(next), since: None, limit: 1 };
    let described = database(sends.list_sends(app, SendsOf::All, range)).await?;
    Ok((summary, described.into_iter().find(|described| described.send_id == send)))
}

/// Lists at most `limit` (recipient, channel) pairs of a send, and returns the position of the last one if further ones follow.
pub async fn pairs(
    operations: &Operations,
    caller: &Caller,
    (app, send): (AppId, SendId),
    filter: PairFilter<'_>,
    after: Option<PairPosition>,
    limit: usize,
) -> Result<(Vec<PairStatus>, Option<PairPosition>), OperationError> {
    caller.may(Permission::View, app)?;
    let wanted = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let mut found = database(operations.store.sends().list_pairs(app, send, filter, after, wanted)).await?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().map(|pair| pair.position).filter(|_| has_more);
    Ok((found, next))
}

/// Returns the send that has this id, or whose delivery has it.
pub async fn send_of(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    id: Uuid,
) -> Result<Option<SendId>, OperationError> {
    caller.may(Permission::View, app)?;
    let store = &operations.store;
    if database(store.sends().find_acceptance(app, SendId(id))).await?.is_some() {
        return Ok(Some(SendId(id)));
    }
    let answers = database(store.deliveries().latest_answers(app, &[DeliveryId(id)])).await?;
    Ok(answers.first().map(|answer| answer.send))
}
