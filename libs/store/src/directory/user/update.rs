use domain::content::Object;
use domain::profile::{Author, Change, Refusal, TokenChange, Unproven};
use domain::{AppId, UserNumber};
use sqlx::PgConnection;

use super::User;
use super::proof::{self, Unconfirmed};
use crate::Error;
use crate::directory::push_token::{self, Naming};

pub(super) struct Version {
    pub(super) user: User,
    pub(super) version: i64,
    pub(super) unconfirmed: Unconfirmed,
}

pub(super) struct ProfileUpdate {
    pub(super) after: Object,
    pub(super) unproven: Unproven,
    tokens: TokenChange,
    ends_devices: bool,
}

impl ProfileUpdate {
    pub(super) fn changes_nothing(&self, user: &User, unconfirmed: &Unconfirmed) -> bool {
        let same = self.after == user.profile && self.unproven == unconfirmed.addresses;
        same && self.tokens.is_empty() && !self.ends_devices
    }

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
