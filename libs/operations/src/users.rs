//! Users.

use std::fmt;

use domain::content::Object as ProfilePairs;
use domain::event::UserErased;
use domain::id::partition;
use domain::{Action, AppId, Envelope, Event, StreamName, UserNumber};
use service_kit::{clock, trace};
use store::deliveries::timer::NewTimer;
use store::directory::device::Device;
use store::directory::user::User;
use store::directory::user::merge::MergeResult;
use store::directory::user::search::SearchPlace;

use crate::waiting::database;
use crate::{Caller, Conflict, Object, OperationError, Operations, Permission};

/// Creates a user.
///
/// # Errors
/// Returns [`Conflict::UserExists`] if the app has a user with this identifier.
pub async fn create(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    identifier: &str,
    profile: ProfilePairs,
) -> Result<User, OperationError> {
    caller.may(Permission::ChangeUsers, app)?;
    let created = database(operations.store.directory().create_user(app, identifier, profile)).await?;
    created.ok_or(OperationError::Conflict(Conflict::UserExists))
}

/// Merges pairs into a user's profile, and creates the user if missing.
pub async fn merge(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    identifier: &str,
    profile: ProfilePairs,
) -> Result<User, OperationError> {
    caller.may(Permission::ChangeUsers, app)?;
    database(operations.store.directory().merge_user(app, identifier, profile)).await
}

/// Merges pairs into the profiles of many users, and returns the result for each of them.
pub async fn merge_many(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    profiles: Vec<(String, ProfilePairs)>,
) -> Result<Vec<MergeResult>, OperationError> {
    caller.may(Permission::ChangeUsers, app)?;
    database(operations.store.directory().merge_many(app, profiles)).await
}

/// Finds a user, with the user's devices.
///
/// # Errors
/// Returns [`Object::User`] if the user does not exist.
pub async fn find(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    identifier: &str,
) -> Result<(User, Vec<Device>), OperationError> {
    caller.may(Permission::ViewUsers, app)?;
    let directory = operations.store.directory();
    let user = database(directory.find_user(app, identifier)).await?;
    let user = user.ok_or(OperationError::NotFound(Object::User))?;
    let devices = database(directory.list_devices(app, user.number)).await?;
    Ok((user, devices))
}

/// Users that a list shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserFilter<'a> {
    All,
    /// Users with this email address. Case does not matter.
    Email(&'a str),
    /// Users with this phone number. Only digits and `+` count.
    PhoneNumber(&'a str),
    /// Users whose identifier, email address or name begins with this text, in this order.
    Start(&'a str),
}

/// Place in a list of users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserPlace {
    Created(UserNumber),
    /// Place in the result of [`UserFilter::Start`].
    Found(SearchPlace),
}

/// Part of a list of users, each with its devices.
#[derive(Debug, Default)]
pub struct UserPage {
    pub users: Vec<(User, Vec<Device>)>,
    /// Place after which the next page begins; None on the last page. A page of found users may have fewer than the limit, or none, although
    /// more follow.
    pub next: Option<UserPlace>,
}

impl UserFilter<'_> {
    /// Parses a place in a list with this filter.
    #[must_use]
    pub fn place(&self, text: &str) -> Option<UserPlace> {
        match self {
            UserFilter::Start(_) => text.parse().ok().map(UserPlace::Found),
            _ => text.parse().ok().map(|number| UserPlace::Created(UserNumber(number))),
        }
    }
}

impl fmt::Display for UserPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UserPlace::Created(number) => number.fmt(f),
            UserPlace::Found(place) => place.fmt(f),
        }
    }
}

/// Lists at most `limit` users after a place of the same list, in order of creation unless the filter says otherwise.
pub async fn list(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    filter: UserFilter<'_>,
    after: Option<UserPlace>,
    limit: usize,
) -> Result<UserPage, OperationError> {
    caller.may(Permission::ViewUsers, app)?;
    let (users, next) = read(operations, app, filter, after, limit).await?;
    let numbers: Vec<_> = users.iter().map(|user| user.number).collect();
    let mut devices = database(operations.store.directory().list_devices_of(app, &numbers)).await?;
    let with_devices = users.into_iter().map(|user| {
        let devices = devices.remove(&user.number).unwrap_or_default();
        (user, devices)
    });
    Ok(UserPage { users: with_devices.collect(), next })
}

/// Reads a page of [`list`] without the devices.
pub(crate) async fn read(
    operations: &Operations,
    app: AppId,
    filter: UserFilter<'_>,
    after: Option<UserPlace>,
    limit: usize,
) -> Result<(Vec<User>, Option<UserPlace>), OperationError> {
    let directory = operations.store.directory();
    let wanted = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let (created, found) = match after {
        Some(UserPlace::Created(number)) => (Some(number), None),
        Some(UserPlace::Found(place)) => (None, Some(place)),
        None => (None, None),
    };
    let mut users = match filter {
        UserFilter::All => database(directory.list_users(app, created, wanted)).await?,
        UserFilter::Email(email) => database(directory.users_with_email(app, email, created, wanted)).await?,
        UserFilter::PhoneNumber(number) => {
            database(directory.users_with_phone(app, number, created, wanted)).await?
        }
        UserFilter::Start(start) => {
            let page = database(directory.search_users(app, start, found.as_ref(), limit)).await?;
            return Ok((page.users, page.next.map(UserPlace::Found)));
        }
    };
    let has_more = users.len() > limit;
    users.truncate(limit);
    let next = users.last().filter(|_| has_more).map(|user| UserPlace::Created(user.number));
    Ok((users, next))
}

/// Erases a user of an installation with this number of inbox partitions. Afterwards the user is unknown, and no earlier send can recreate or reach the user. The rest of the data is deleted
/// soon after.
///
/// # Errors
/// Returns [`Object::User`] if the user does not exist.
pub async fn erase(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    identifier: &str,
    partitions: u32,
) -> Result<(), OperationError> {
    let actor = caller.authorize(Action::UserErase, app)?;
    let begun = database(operations.store.erasure().erase_user(app, identifier, clock::now())).await?;
    let erasure = begun.ok_or(OperationError::NotFound(Object::User))?;
    let user = erasure.user();
    let erased = UserErased { user, digest: erasure.digest() };
    let timer = erasure_timer(app, erased, partitions)?;
    database(erasure.commit(&timer, actor)).await?;
    tracing::info!(%app, %user, "erased a user");
    Ok(())
}

/// Creates a timer, due now, that publishes the erasure to the inbox's stream. With a timer, an erasure succeeds even while the log is
/// unavailable.
fn erasure_timer(app: AppId, erased: UserErased, partitions: u32) -> Result<NewTimer, OperationError> {
    let (id, now, user) = (clock::new_id(), clock::now(), erased.user);
    let event = Envelope {
        id,
        app,
        at: now,
        send_id: None,
        caused_by: None,
        trace: trace::current_traceparent(),
        event: Event::UserErased(erased),
    };
    let message = event.encode().map_err(OperationError::defect)?;
    let stream = StreamName::Inbox(partition(app, user, partitions));
    Ok(NewTimer { id, due_at: now, stream, message, app, send_id: None, user: None, wait: None })
}
