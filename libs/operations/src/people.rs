//! People, with their targets masked, for operators who help them.

pub mod reveal;

use domain::target::masked;
use domain::{AppId, Channel, DeliveryId, Timestamp, UserNumber, profile};
use store::deliveries::suppression::SuppressedTarget;
use store::directory::device::Device;
use store::directory::preference::CategoryPreference;
use store::directory::topic::subscription::SubscribedTopic;
use store::directory::user::User;

use crate::users::{self, UserFilter, UserPlace};
use crate::waiting::database;
use crate::{Caller, Object, OperationError, Operations, Permission};

/// Maximum number of topics of a person that are shown.
const MOST_TOPICS: i64 = 50;
/// Maximum number of removed push tokens and browser subscriptions of a person that are shown.
const MOST_REMOVED: i64 = 50;

/// A person in a list, with masked targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskedPerson {
    pub number: UserNumber,
    pub identifier: String,
    /// The identifier as the caller may see it.
    pub shown: String,
    pub created_at: Timestamp,
    /// Address in the profile, masked.
    pub email: Option<String>,
    /// Number in the profile, masked.
    pub phone_number: Option<String>,
    pub devices: usize,
    pub targets: Vec<(Channel, String)>,
    /// Names of the profile's other attributes.
    pub attributes: Vec<String>,
}

/// A target and whether Tidings calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonTarget {
    pub channel: Channel,
    /// Masked.
    pub target: String,
    /// None if the target is used.
    pub suppressed: Option<TargetSuppression>,
}

impl PersonTarget {
    /// True if a suppression removed the target from the person.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.suppressed.as_ref().is_some_and(|suppression| suppression.removed)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetSuppression {
    /// Delivery that led to the suppression.
    pub delivery: DeliveryId,
    /// Code with which the provider reported the target as dead.
    pub code: String,
    pub at: Timestamp,
    /// True if the suppression removed the target from the person. Lifting it brings the target back.
    pub removed: bool,
}

#[derive(Debug)]
pub struct PersonDetails {
    pub person: MaskedPerson,
    pub targets: Vec<PersonTarget>,
    pub devices: Vec<Device>,
    /// Categories for which the person made a choice.
    pub preferences: Vec<CategoryPreference>,
    pub topics: Vec<SubscribedTopic>,
    /// Numbers of items in the inbox: all, unread.
    pub inbox: (i64, i64),
}

impl MaskedPerson {
    fn new(caller: &Caller, app: AppId, user: User, devices: usize) -> MaskedPerson {
        let masked_value = |keys: &[&str]| {
            let text = keys.iter().find_map(|key| user.profile.get(*key)).and_then(|value| value.as_str());
            text.map(masked)
        };
        let (email, phone_number) = (masked_value(&["email"]), masked_value(&["phoneNumber", "phone"]));
        let targets = targets(&user).into_iter().map(|(channel, target)| (channel, masked(&target)));
        let targets = targets.collect();
        let is_target = |name: &str| ["email", "phone", "phoneNumber", "fcm", "apns"].contains(&name);
        let attributes =
            user.profile.keys().map(ToString::to_string).filter(|name| !is_target(name)).collect();
        MaskedPerson {
            number: user.number,
            shown: shown_identifier(caller, app, &user.identifier),
            identifier: user.identifier,
            created_at: user.created_at,
            email,
            phone_number,
            devices,
            targets,
            attributes,
        }
    }
}

/// Returns an identifier as a caller may see it: an email address or phone number is masked, unless the caller may see users.
#[must_use]
pub fn shown_identifier(caller: &Caller, app: AppId, identifier: &str) -> String {
    let is_target = identifier.contains('@') || identifier.starts_with('+');
    if is_target && caller.may(Permission::ViewUsers, app).is_err() {
        masked(identifier)
    } else {
        identifier.to_owned()
    }
}

fn targets(user: &User) -> Vec<(Channel, String)> {
    let email = profile::email(&user.identifier, &user.profile).ok();
    let email = email.map(|email| (Channel::Email, email.address.to_string()));
    let phone = profile::phone(&user.profile).ok().map(|phone| (Channel::Sms, phone.to_string()));
    let tokens = profile::push_targets(&user.profile).map(|token| (Channel::MobilePush, token));
    email.into_iter().chain(phone).chain(tokens).collect()
}

/// Lists at most `limit` people after a place of the same list. Returns the place after which the next page begins as well; None on the
/// last page.
///
/// # Errors
/// Returns [`OperationError::Denied`] if the caller may not see users and the filter is not [`UserFilter::All`]: a search for addresses would
/// undo their masks.
pub async fn list(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    filter: UserFilter<'_>,
    after: Option<UserPlace>,
    limit: usize,
) -> Result<(Vec<MaskedPerson>, Option<UserPlace>), OperationError> {
    let permission = if filter == UserFilter::All { Permission::View } else { Permission::ViewUsers };
    caller.may(permission, app)?;
    let (users, next) = users::read(operations, app, filter, after, limit).await?;
    let numbers: Vec<_> = users.iter().map(|user| user.number).collect();
    let devices = database(operations.store.directory().list_devices_of(app, &numbers)).await?;
    let people = users.into_iter().map(|user| {
        let devices = devices.get(&user.number).map_or(0, Vec::len);
        MaskedPerson::new(caller, app, user, devices)
    });
    Ok((people.collect(), next))
}

/// Finds a person by identifier.
///
/// # Errors
/// Returns [`Object::User`] if there is no such person.
pub async fn find(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    identifier: &str,
) -> Result<PersonDetails, OperationError> {
    caller.may(Permission::View, app)?;
    let user = database(operations.store.directory().find_user(app, identifier)).await?;
    details(operations, caller, app, user.ok_or(OperationError::NotFound(Object::User))?).await
}

/// Finds a person by number, for callers who may not see the identifier.
///
/// # Errors
/// Returns [`Object::User`] if there is no such person.
pub async fn find_numbered(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    number: UserNumber,
) -> Result<PersonDetails, OperationError> {
    caller.may(Permission::View, app)?;
    let before = UserNumber(number.0.saturating_sub(1));
    let found = database(operations.store.directory().list_users(app, Some(before), 1)).await?;
    let user = found.into_iter().find(|user| user.number == number);
    details(operations, caller, app, user.ok_or(OperationError::NotFound(Object::User))?).await
}

fn suppression(dead: &SuppressedTarget, removed: bool) -> TargetSuppression {
    TargetSuppression { delivery: dead.delivery, code: dead.code.clone(), at: dead.at, removed }
}

fn removed(dead: &SuppressedTarget) -> PersonTarget {
    let (target, suppressed) = (masked(&dead.target), Some(suppression(dead, true)));
    PersonTarget { channel: dead.channel, target, suppressed }
}

async fn details(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    user: User,
) -> Result<PersonDetails, OperationError> {
    let store = &operations.store;
    let identifier = user.identifier.as_str();
    let all = targets(&user);
    let suppressed = database(store.deliveries().suppressions_of(app, &all)).await?;
    let gone = database(store.deliveries().targets_removed_from(app, user.number, MOST_REMOVED)).await?;
    let held = |dead: &SuppressedTarget| {
        all.iter().any(|(channel, target)| (*channel, target) == (dead.channel, &dead.target))
    };
    let gone: Vec<PersonTarget> = gone.iter().filter(|dead| !held(dead)).map(removed).collect();
    let targets = all.into_iter().map(|(channel, target)| {
        let is_it = |dead: &&SuppressedTarget| dead.channel == channel && dead.target == target;
        let suppressed = suppressed.iter().find(is_it).map(|dead| suppression(dead, false));
        PersonTarget { channel, suppressed, target: masked(&target) }
    });
    let targets = targets.chain(gone).collect();
    let topics = store.directory().list_topics_of_user(app, identifier, None, MOST_TOPICS);
    let topics = database(topics).await?.unwrap_or_default();
    let counts = database(store.inbox().inbox_owner(app, identifier)).await?;
    let counts = counts.map(|owner| owner.counts).unwrap_or_default();
    let devices = database(store.directory().list_devices(app, user.number)).await?;
    Ok(PersonDetails {
        preferences: database(store.directory().list_preferences(app, identifier)).await?,
        topics,
        inbox: (counts.total, counts.unread),
        targets,
        person: MaskedPerson::new(caller, app, user, devices.len()),
        devices,
    })
}
