//! Users of the run.

use std::collections::{BTreeMap, BTreeSet};

use domain::Channel;
use serde_json::{Value, json};

/// Share of users of the largest app, in percent.
const LARGE_SHARE: usize = 60;

/// All users of the run, by number; each is a user of one app.
#[derive(Clone, Copy, Debug)]
pub(crate) struct People {
    pub(crate) users: usize,
    pub(crate) apps: usize,
}

impl People {
    pub(crate) fn app_of(self, user: usize) -> usize {
        let large = self.large();
        if user < large || self.apps == 1 { 0 } else { 1 + (user - large) % (self.apps - 1) }
    }

    pub(crate) fn of_app(self, app: usize) -> impl Iterator<Item = usize> {
        (0..self.users).filter(move |&user| self.app_of(user) == app)
    }

    fn large(self) -> usize {
        if self.apps == 1 { self.users } else { self.users * LARGE_SHARE / 100 }
    }
}

pub(crate) fn identifier(user: usize) -> String {
    format!("user-{user}")
}

/// Email address of the user after this number of changes.
pub(crate) fn email(user: usize, changes: usize) -> String {
    format!("user-{user}.{changes}@example.com")
}

/// Phone number. Half of the users have one.
fn phone(user: usize) -> Option<String> {
    user.is_multiple_of(2).then(|| format!("+1415{user:07}"))
}

/// Push token and its service. A third of the users have an APNs token, another third an FCM token.
fn token(user: usize) -> Option<(&'static str, String)> {
    match user % 3 {
        0 => Some(("apns", format!("{:064x}", 0xa000_0000_usize + user))),
        1 => Some(("fcm", format!("fcm-token-{user:020}"))),
        _ => None,
    }
}

/// The user as an item of `POST /v3/users/bulk`.
pub(crate) fn document(user: usize) -> Value {
    let mut profile = json!({"email": email(user, 0)});
    if let Some(phone) = phone(user) {
        profile["phone"] = phone.into();
    }
    if let Some((service, token)) = token(user) {
        profile[service] = json!({"tokens": [token]});
    }
    json!({"identifier": identifier(user), "profile": profile})
}

/// Targets of the user according to [`document`], as the ledger names them.
pub(crate) fn targets(user: usize) -> BTreeMap<Channel, BTreeSet<String>> {
    let mut targets = BTreeMap::from([(Channel::Email, BTreeSet::from([email(user, 0)]))]);
    targets.extend(phone(user).map(|phone| (Channel::Sms, [phone].into())));
    let token = token(user).map(|(service, token)| format!("{service}:{token}"));
    targets.extend(token.map(|token| (Channel::MobilePush, [token].into())));
    targets
}

pub(crate) fn has_browser(user: usize) -> bool {
    user.is_multiple_of(4)
}

/// Returns true if the user lists and changes their inbox during the run.
pub(crate) fn is_reader(user: usize) -> bool {
    user.is_multiple_of(5)
}
