//! Runs: redrives of parked messages in the background, after a preview.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::redrive::{RunState, Skip};
use domain::{Action, AppId, Problem, Timestamp};
use fairness::principal::Principal;
use fairness::quota::Lease;
use store::deliveries::redrive::run::{LeasedRun, NewRun, RedriveRun};
use store::deliveries::redrive::{ParkedEntry, ParkedFilter, position_after};

use crate::parked::ParkedKind;
use crate::waiting::database;
use crate::{Caller, Conflict, Object, OperationError, Operations, Permission};

/// Messages per query of a preview.
const PAGE: i64 = 500;
/// Maximum number of messages that a run selects.
pub const MOST_SELECTED: u64 = 100_000;
/// Number of messages above which a run needs the typed number and a confirmed operator.
pub const LARGE: u64 = 1_000;
/// Messages per second: minimum, default and maximum.
pub const RATES: (u32, u32, u32) = (1, 50, 1_000);
/// Time for which a preview is valid.
pub const PREVIEW_VALID: Duration = Duration::from_secs(15 * 60);
/// Maximum number of messages that a preview shows.
const SHOWN: usize = 20;

/// A redrive that would run now.
#[derive(Debug)]
pub struct RedrivePreview {
    /// Moment of the preview, by the database's clock. A run takes nothing that was parked at this time or later.
    pub at: Timestamp,
    /// Messages that would be redriven, by kind.
    pub messages: BTreeMap<ParkedKind, u64>,
    /// People who would get them.
    pub people: u64,
    /// Numbers of messages that stay parked, by reason.
    pub stay: BTreeMap<Skip, u64>,
    /// The first messages that would be redriven.
    pub first: Vec<ParkedEntry>,
    /// True if the filter selects more messages than a run may. Only these are counted.
    pub is_cut: bool,
}

impl RedrivePreview {
    /// Returns the number of messages that would be redriven.
    #[must_use]
    pub fn expected(&self) -> u64 {
        self.messages.values().sum()
    }

    /// Returns the number of messages that the filter selects.
    #[must_use]
    pub fn selected(&self) -> u64 {
        self.expected() + self.stay.values().sum::<u64>()
    }
}

/// A run that an operator starts after a preview.
#[derive(Clone, Debug)]
pub struct NewRedrive<'a> {
    pub app: AppId,
    /// The filter of the preview. Its end is the moment of the preview, or an earlier time.
    pub filter: &'a ParkedFilter,
    pub previewed_at: Timestamp,
    pub per_second: u32,
    /// Number of messages that the preview expected to be redriven.
    pub expected: u64,
    /// The same number, typed by the operator.
    pub typed: Option<u64>,
    /// True if the operator has confirmed their identity again.
    pub is_confirmed: bool,
}

/// Returns what a run would do now, and passes each selected message to `seen`.
pub async fn preview(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    filter: &ParkedFilter,
    seen: impl FnMut(&ParkedEntry),
) -> Result<RedrivePreview, OperationError> {
    caller.may(Permission::Redrive, app)?;
    let _place = place(operations, app)?;
    let at = database(operations.store.deliveries().time()).await?;
    examine(operations, app, filter, at, MOST_SELECTED, seen).await
}

/// Takes a place among the previews. An app gets at most half of them.
fn place(operations: &Operations, app: AppId) -> Result<Lease, OperationError> {
    operations.previews.take(&Principal::backend(app), 1).map_err(|_| OperationError::crowded())
}

async fn examine(
    operations: &Operations,
    app: AppId,
    filter: &ParkedFilter,
    at: Timestamp,
    most: u64,
    mut seen: impl FnMut(&ParkedEntry),
) -> Result<RedrivePreview, OperationError> {
    let before = filter.before.map_or(at, |before| before.min(at));
    let filter = ParkedFilter { app: Some(app), before: Some(before), ..filter.clone() };
    let (messages, stay, first) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let mut preview = RedrivePreview { at, messages, people: 0, stay, first, is_cut: false };
    let mut people = BTreeSet::new();
    let mut after = None;
    loop {
        let page = database(operations.store.deliveries().list_parked(&filter, after, PAGE)).await?;
        let Some(last) = position_after(&page) else { break };
        after = Some(last);
        for parked in page {
            if preview.selected() >= most {
                preview.is_cut = true;
                preview.people = people.len() as u64;
                return Ok(preview);
            }
            seen(&parked);
            match parked.skip {
                Some(skip) => *preview.stay.entry(skip).or_default() += 1,
                None => {
                    *preview.messages.entry(ParkedKind::of(&parked)).or_default() += 1;
                    people.extend(parked.user);
                    if preview.first.len() < SHOWN {
                        preview.first.push(parked);
                    }
                }
            }
        }
    }
    preview.people = people.len() as u64;
    Ok(preview)
}

/// Starts a run. The dispatcher makes it in the background, and judges each message again.
///
/// # Errors
/// Returns [`Conflict::PreviewExpired`] if the preview is older than 15 minutes, and [`Conflict::RedriveOverlaps`] if an unfinished run may
/// select the same messages.
pub async fn start(
    operations: &Operations,
    caller: &Caller,
    new: &NewRedrive<'_>,
) -> Result<i64, OperationError> {
    let actor = caller.authorize(Action::RedriveStart, new.app)?;
    let _place = place(operations, new.app)?;
    let deliveries = operations.store.deliveries();
    let now = database(deliveries.time()).await?;
    if new.previewed_at > now || new.previewed_at < now - PREVIEW_VALID {
        return Err(OperationError::Conflict(Conflict::PreviewExpired));
    }
    // The number of the form is not trusted: what needs a confirmation is counted again.
    let counted = examine(operations, new.app, new.filter, new.previewed_at, MOST_SELECTED, |_| ()).await?;
    check(new, &counted)?;
    let before = new.filter.before.map_or(new.previewed_at, |before| before.min(new.previewed_at));
    let run = NewRun {
        app: new.app,
        filter: new.filter,
        before,
        selected: counted.selected(),
        expected: counted.expected(),
        per_second: new.per_second,
    };
    let started = database(deliveries.start_run(&run, actor)).await?;
    let id = started.ok_or(OperationError::Conflict(Conflict::RedriveOverlaps))?;
    tracing::info!(app = %new.app, run = id, expected = run.expected, "started a redrive");
    Ok(id)
}

fn check(new: &NewRedrive<'_>, counted: &RedrivePreview) -> Result<(), OperationError> {
    let (least, _, most) = RATES;
    let problem = if !(least..=most).contains(&new.per_second) {
        Problem::new("rate", "out_of_range", format!("The rate must be {least} to {most} messages a second."))
    } else if counted.is_cut {
        let text =
            format!("The filter selects more than {MOST_SELECTED} messages. Narrow it, for example by time.");
        Problem::new("filter", "too_many", text)
    } else if counted.expected() == 0 {
        Problem::new("filter", "nothing", "No message would be redriven.")
    } else if counted.expected().max(new.expected) <= LARGE {
        return Ok(());
    } else if new.typed != Some(new.expected) {
        let text = format!("Type the number of messages, {}, to confirm.", new.expected);
        Problem::new("typed", "confirmation_required", text)
    } else if !new.is_confirmed {
        Problem::new("password", "confirmation_required", "Confirm with your password.")
    } else {
        return Ok(());
    };
    Err(OperationError::Invalid(vec![problem]))
}

/// Lists at most `limit` runs of an app, latest first.
pub async fn list(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    limit: i64,
) -> Result<Vec<RedriveRun>, OperationError> {
    caller.may(Permission::View, app)?;
    database(operations.store.deliveries().list_runs(app, limit)).await
}

/// Finds a run.
///
/// # Errors
/// Returns [`Object::Redrive`] if the app has no such run.
pub async fn find(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    id: i64,
) -> Result<RedriveRun, OperationError> {
    caller.may(Permission::View, app)?;
    let found = database(operations.store.deliveries().find_run(app, id)).await?;
    found.ok_or(OperationError::NotFound(Object::Redrive))
}

/// Pauses, resumes or stops a run.
///
/// # Errors
/// Returns [`Object::Redrive`] if the app has no such run, and [`Conflict::RedriveEnded`] or [`Conflict::RedriveUnchanged`] if its state does
/// not allow the change.
pub async fn change(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    id: i64,
    to: RunState,
) -> Result<(), OperationError> {
    let (action, from): (_, &[RunState]) = match to {
        RunState::Running => (Action::RedriveResume, &[RunState::Paused]),
        RunState::Paused => (Action::RedrivePause, &[RunState::Running]),
        RunState::Stopped | RunState::Done => (Action::RedriveStop, &[RunState::Running, RunState::Paused]),
    };
    let actor = caller.authorize(action, app)?;
    if to == RunState::Done {
        return Err(OperationError::Conflict(Conflict::RedriveUnchanged));
    }
    let deliveries = operations.store.deliveries();
    if database(deliveries.change_run(LeasedRun { app, id }, from, to, action, actor)).await? {
        return Ok(());
    }
    let found = database(deliveries.find_run(app, id)).await?;
    let found = found.ok_or(OperationError::NotFound(Object::Redrive))?;
    let conflict = if found.state.is_end() { Conflict::RedriveEnded } else { Conflict::RedriveUnchanged };
    Err(OperationError::Conflict(conflict))
}
