//! A computed change of a profile, with its effects on push tokens, devices and unproven addresses.

use domain::content::Object;
use domain::profile::{Author, Change, Refusal, TokenChange, Unproven};
use domain::{AppId, UserNumber};
use sqlx::PgConnection;

use super::User;
use super::proof::{self, Unconfirmed};
use crate::Error;
use crate::directory::push_token::{self, Naming};

/// A user at one version of the profile.
pub(super) struct Version {
    pub(super) user: User,
    pub(super) version: i64,
    pub(super) unconfirmed: Unconfirmed,
}

/// A profile after a change, and the change to its push tokens.
pub(super) struct ProfileUpdate {
    pub(super) after: Object,
    pub(super) unproven: Unproven,
    tokens: TokenChange,
    /// True if the change ends unproven devices of the user.
    ends_devices: bool,
}

impl ProfileUpdate {
    /// Returns true if the change writes nothing.
    pub(super) fn changes_nothing(&self, user: &User, unconfirmed: &Unconfirmed) -> bool {
        let same = self.after == user.profile && self.unproven == unconfirmed.addresses;
        same && self.tokens.is_empty() && !self.ends_devices
    }

    /// Records the effects of the written profile on push tokens and devices.
    pub(super) async fn record(
        &self,
        connection: &mut PgConnection,
        app: AppId,
        user: UserNumber,
        author: Author,
    ) -> Result<(), Error> {
        if author == Author::Claimed {
            proof::admit_unproven(connection, app).await?;
        }
        if self.ends_devices {
            proof::end_devices(connection, &[(app, user)]).await?;
        }
        push_token::record(connection, &[(app, user, self.tokens.clone())], Naming::Registers).await
    }
}

/// Computes the change of a profile.
///
/// # Errors
/// Returns the reason if the change is refused.
pub(super) fn compute(
    change: &Change,
    (before, unconfirmed): &(Object, Unconfirmed),
    author: Author,
) -> Result<ProfileUpdate, Refusal> {
    let mut after = change.apply(before, author)?;
    let unproven = unconfirmed.addresses.changed((before, &mut after), &[change], author, unconfirmed.end);
    let tokens = change.tokens(before, &after);
    Ok(ProfileUpdate { after, unproven, tokens, ends_devices: unconfirmed.ends_devices(author) })
}
