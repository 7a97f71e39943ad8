//! Why a person got a notification or did not, and what a send would do now.

mod now;
mod similar;

use domain::content::Object as Profile;
use domain::explain::{
    AttemptFacts, Facts, ItemFacts, PairFacts, ReceiptFacts, Story, SuppressionFacts, WaitFacts, tell,
};
use domain::{AppId, Channel, Reason, SendId, Status, Timestamp, plan};
use service_kit::clock;
use store::directory::user::User;
use store::sends::list::ListedSend;
use store::sends::pairs::{AttemptRecord, PairStatus};
use store::sends::story::{StoredRequest, SuppressedTarget};

use crate::people::shown_identifier;
use crate::requests::{SendFilter, SendPage, list_of, pairs_of};
use crate::waiting::database;
use crate::{Caller, Object, OperationError, Operations, Permission};

pub use now::{Now, NowChannel};

/// Age up to which a request that is not stored may still be on its way to the dispatcher, in milliseconds.
const UNPLANNED: u128 = 60_000;
/// Lead that the clock of the gateway that made an id may have, in milliseconds.
const SKEW: u128 = 1_000;

/// A person, as far as the app still knows them.
#[derive(Clone, Debug)]
pub struct Person {
    /// As the caller may see it.
    pub identifier: String,
    /// Name in the profile; None if the caller may not see users.
    pub name: Option<String>,
}

impl Person {
    fn new(caller: &Caller, app: AppId, identifier: &str, profile: Option<&Profile>) -> Person {
        let profile = profile.filter(|_| caller.may(Permission::ViewUsers, app).is_ok());
        let name = profile.and_then(|profile| profile.get("name")).and_then(|name| name.as_str());
        let name = name.filter(|name| !name.trim().is_empty());
        Person { identifier: shown_identifier(caller, app, identifier), name: name.map(str::to_owned) }
    }

    /// Name in sentences.
    #[must_use]
    pub fn shown(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.identifier)
    }
}

/// Answer to the question about one send.
#[derive(Debug)]
pub struct Explanation {
    pub person: Person,
    /// One or a few sentences that answer the question.
    pub verdict: String,
    /// None if the send is not planned yet.
    pub request: Option<StoredRequest>,
    /// None if the person is no recipient, or the send is not planned yet.
    pub story: Option<Story>,
    /// Deliveries, items and skipped channels; [`Story`] names them by their places.
    pub pairs: Vec<PairStatus>,
    /// Suppressions to which the story refers.
    pub suppressed: Vec<SuppressedTarget>,
    pub now: Option<Now>,
}

/// A send with its verdict for a person.
#[derive(Debug)]
pub struct ExplainedSend {
    pub send: ListedSend,
    pub verdict: String,
    /// Status of each channel.
    pub statuses: Vec<Status>,
}

/// Latest sends to a person.
#[derive(Debug)]
pub struct ExplainedSends {
    pub person: Person,
    pub sends: Vec<ExplainedSend>,
    /// Start of the next page; None if no further send matches.
    pub next: Option<SendId>,
    /// Number of sends to the person that were compared with the filter.
    pub examined: usize,
    /// Time at which the earliest of them was accepted.
    pub reached: Option<Timestamp>,
    pub now: Option<Now>,
}

impl ExplainedSends {
    /// Sentence for an empty list.
    #[must_use]
    pub fn none_matches(&self) -> String {
        let who = self.person.shown();
        match (self.next, self.reached) {
            (Some(_), Some(reached)) => format!(
                "No send to {who} matches among the {} that were examined, back to {reached}.",
                self.examined
            ),
            _ => format!("No send to {who} matches."),
        }
    }
}

#[derive(Debug)]
pub enum Explained<T> {
    Found(Box<T>),
    /// The user was erased. Nothing else is known.
    Erased,
    /// The app has no such user. Lists similar identifiers.
    UnknownUser {
        similar: Vec<String>,
    },
}

/// Explains one send for one person. With `now`, the answer also says what the same send would do now.
///
/// # Errors
/// Returns [`Object::Request`] if the app has no such send.
pub async fn request(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    user: &str,
    send: SendId,
    now: bool,
) -> Result<Explained<Explanation>, OperationError> {
    caller.may(Permission::View, app)?;
    // Planning creates users with an inline profile, so the user is read after the plan.
    let stored = database(operations.store.sends().find_stored_request(app, send)).await?;
    let found = database(operations.store.directory().find_user(app, user)).await?;
    let Some(stored) = stored else {
        return unplanned(operations, caller, app, (user, found), send).await;
    };
    let number = found.as_ref().map(|user| user.number);
    let index = database(operations.store.sends().find_recipient(app, send, number, user)).await?;
    let (None, None) = (&found, index) else {
        let person = Person::new(caller, app, user, found.as_ref().map(|user| &user.profile));
        let explained = explain(operations, app, (person, found), send, stored, index, now).await?;
        return Ok(Explained::Found(Box::new(explained)));
    };
    missing(operations, caller, app, user).await
}

async fn explain(
    operations: &Operations,
    app: AppId,
    (person, user): (Person, Option<User>),
    send: SendId,
    stored: StoredRequest,
    index: Option<i32>,
    now: bool,
) -> Result<Explanation, OperationError> {
    let Some(index) = index else {
        let verdict = not_among(&person, &stored);
        let request = Some(stored);
        let (pairs, suppressed) = (Vec::new(), Vec::new());
        return Ok(Explanation { person, verdict, request, story: None, pairs, suppressed, now: None });
    };
    let pairs = pairs_of(operations, app, send, index).await?;
    let (facts, suppressed) = facts(operations, app, send, &person, &stored, user.as_ref(), &pairs).await?;
    let story = tell(&facts);
    let now = match &user {
        Some(user) if now => {
            let is_selected = |pair: &&PairStatus| pair.reason != Some(Reason::NotSelected);
            let channels = pairs.iter().filter(is_selected).map(|pair| pair.position.channel).collect();
            let template = stored.template.as_ref().map(|(template, _)| template.as_str());
            let like = now::Like { category: stored.category.as_deref(), template, channels: Some(channels) };
            Some(now::decide(operations, app, &user.identifier, like).await?)
        }
        _ => None,
    };
    let verdict = story.verdict.clone();
    Ok(Explanation { person, verdict, request: Some(stored), story: Some(story), pairs, suppressed, now })
}

/// Lists the latest sends to a person, each with its verdict. With `now`, the answer also says what a send of the category would do
/// now.
pub async fn latest(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    user: &str,
    filter: SendFilter<'_>,
    limit: usize,
    now: bool,
) -> Result<Explained<ExplainedSends>, OperationError> {
    caller.may(Permission::View, app)?;
    let Some(found) = database(operations.store.directory().find_user(app, user)).await? else {
        return missing(operations, caller, app, user).await;
    };
    let person = Person::new(caller, app, user, Some(&found.profile));
    let filter = SendFilter { recipient: Some(user), ..filter };
    let page = if limit == 0 {
        SendPage::default()
    } else {
        list_of(operations, app, filter, Some(found.number), limit).await?
    };
    let SendPage { sends: listed, next, examined, reached } = page;
    let mut sends = Vec::with_capacity(listed.len());
    for send in listed {
        let pairs = pairs_of(operations, app, send.send_id, send.recipient_index.unwrap_or(0)).await?;
        let facts = Facts {
            who: person.shown().to_owned(),
            accepted_at: send.accepted_at,
            send_at: send.send_at,
            cancelled_at: None,
            pairs: pairs.iter().map(pair_facts).collect(),
        };
        let Story { verdict, channels, .. } = tell(&facts);
        let statuses = channels.iter().map(|channel| channel.status).collect();
        sends.push(ExplainedSend { send, verdict, statuses });
    }
    let now = if now {
        let like = now::Like { category: filter.category, template: None, channels: None };
        Some(now::decide(operations, app, user, like).await?)
    } else {
        None
    };
    Ok(Explained::Found(Box::new(ExplainedSends { person, sends, next, examined, reached, now })))
}

async fn missing<T>(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    user: &str,
) -> Result<Explained<T>, OperationError> {
    if database(operations.store.sends().was_erased(app, user)).await? {
        return Ok(Explained::Erased);
    }
    let similar = similar::identifiers(operations, app, user).await?;
    let similar = similar.iter().map(|identifier| shown_identifier(caller, app, identifier)).collect();
    Ok(Explained::UnknownUser { similar })
}

/// Answers for a request that the dispatcher has not stored.
async fn unplanned(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    (user, found): (&str, Option<User>),
    send: SendId,
) -> Result<Explained<Explanation>, OperationError> {
    let parked = database(operations.store.deliveries().find_parked_send(app, send)).await?;
    let verdict = match (parked, age(send)) {
        (Some(_), _) => {
            "The send is parked: planning it failed repeatedly. Remove the cause that `tidings parked list` shows, and redrive it."
                .to_owned()
        }
        (None, Some(age)) => format!(
            "Not planned yet: the request id is {age} ms old. If this is still the answer after a minute, no such request was accepted."
        ),
        (None, None) => return Err(OperationError::NotFound(Object::Request)),
    };
    if found.is_none() && database(operations.store.sends().was_erased(app, user)).await? {
        return Ok(Explained::Erased);
    }
    let person = Person::new(caller, app, user, found.as_ref().map(|user| &user.profile));
    let (request, story, pairs, suppressed, now) = (None, None, Vec::new(), Vec::new(), None);
    let explanation = Explanation { person, verdict, request, story, pairs, suppressed, now };
    Ok(Explained::Found(Box::new(explanation)))
}

/// Returns the age in milliseconds of a request that was created within the last minute. The id contains the time (RFC 9562, section
/// 5.7).
fn age(send: SendId) -> Option<u128> {
    let (seconds, nanos) = send.0.get_timestamp()?.to_unix();
    let made = u128::from(seconds) * 1_000 + u128::from(nanos) / 1_000_000;
    let now = u128::try_from(clock::now().millis()).unwrap_or(0);
    let age = now.saturating_sub(made);
    (made <= now + SKEW && age <= UNPLANNED).then_some(age)
}

fn not_among(person: &Person, stored: &StoredRequest) -> String {
    let who = person.shown();
    match stored.send_at.filter(|at| *at > clock::now()) {
        Some(at) => format!("Not planned yet: the send is scheduled for {at}."),
        None if stored.is_open => {
            format!("{who} is not among the recipients that are planned so far; further ones follow.")
        }
        None => format!("{who} is not among the recipients of this send."),
    }
}

async fn facts(
    operations: &Operations,
    app: AppId,
    send: SendId,
    person: &Person,
    stored: &StoredRequest,
    user: Option<&User>,
    pairs: &[PairStatus],
) -> Result<(Facts, Vec<SuppressedTarget>), OperationError> {
    let mut suppressed = Vec::new();
    let mut found: Vec<PairFacts> = pairs.iter().map(pair_facts).collect();
    if let Some(user) = user {
        let times = database(operations.store.sends().item_times(app, send, user.number)).await?;
        let item = times.map(|times| ItemFacts {
            seen_at: times.seen_at,
            read_at: times.read_at,
            deleted_at: times.deleted_at,
        });
        for pair in found.iter_mut().filter(|pair| pair.channel == Channel::InApp && pair.reason.is_none()) {
            pair.item = item;
        }
        suppressed = add_suppressions(operations, app, user, pairs, &mut found).await?;
    }
    let facts = Facts {
        who: person.shown().to_owned(),
        accepted_at: stored.accepted_at,
        send_at: stored.send_at,
        cancelled_at: stored.cancelled_at,
        pairs: found,
    };
    Ok((facts, suppressed))
}

/// Adds the suppressions of the targets that failed, and of the person's targets on suppressed channels, and returns them.
async fn add_suppressions(
    operations: &Operations,
    app: AppId,
    user: &User,
    pairs: &[PairStatus],
    found: &mut [PairFacts],
) -> Result<Vec<SuppressedTarget>, OperationError> {
    let mut targets = Vec::new();
    for pair in pairs {
        let channel = pair.position.channel;
        match pair.reason {
            Some(Reason::TargetGone) => targets.extend(pair.target.clone().map(|target| (channel, target))),
            Some(Reason::Suppressed) => {
                let own = plan::targets(channel, &user.identifier, &user.profile, &[]);
                let own = own.unwrap_or_default().into_iter().map(|target| (channel, target.text));
                targets.extend(pair.target.clone().map(|target| (channel, target)));
                targets.extend(own);
            }
            _ => {}
        }
    }
    let all = database(operations.store.sends().suppressed_targets(app, &targets)).await?;
    for suppressed in &all {
        let is_about = |pair: &&mut PairFacts| {
            pair.channel == suppressed.channel
                && matches!(pair.reason, Some(Reason::TargetGone | Reason::Suppressed))
                && pair.target.as_ref().is_none_or(|target| *target == suppressed.target)
        };
        for pair in found.iter_mut().filter(is_about) {
            pair.suppression = Some(SuppressionFacts {
                target: suppressed.target.clone(),
                code: suppressed.code.clone(),
                since: suppressed.since,
            });
        }
    }
    Ok(all)
}

fn pair_facts(pair: &PairStatus) -> PairFacts {
    let wait = pair.wait.as_ref();
    let last_provider = pair.attempts.last().and_then(|attempt| attempt.provider.clone());
    PairFacts {
        channel: pair.position.channel,
        status: pair.status,
        reason: pair.reason,
        target: pair.target.as_deref().map(domain::target::masked),
        provider: wait
            .and_then(|wait| wait.provider.clone())
            .or_else(|| pair.provider.clone())
            .or(last_provider),
        planned_at: pair.planned_at,
        wait: wait.map(|wait| WaitFacts { code: wait.code.clone(), next_attempt_at: wait.next_attempt_at }),
        attempts: pair.attempts.iter().map(attempt_facts).collect(),
        item: None,
        suppression: None,
    }
}

fn attempt_facts(attempt: &AttemptRecord) -> AttemptFacts {
    let receipt = attempt.receipt.as_ref().map(|receipt| ReceiptFacts {
        outcome: receipt.outcome.clone(),
        code: receipt.provider_code.clone(),
        message: receipt.provider_message.clone(),
        received_at: receipt.received_at,
    });
    AttemptFacts {
        number: attempt.number,
        started_at: attempt.started_at,
        ended_at: attempt.ended_at,
        provider: attempt.provider.clone(),
        code: attempt.provider_code.clone(),
        message: attempt.provider_message.clone(),
        receipt,
    }
}
