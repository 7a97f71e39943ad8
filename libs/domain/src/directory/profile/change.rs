use super::keys::{self, APP_KEY, RESERVED_KEY};
use super::{MAX_PROFILE, MAX_WORK, Patch, TokenChange, malformed, merge};
use crate::Problem;
use crate::content::Object;
use crate::size::json_size;

/// A well-formed write to a profile; the profile may still refuse it.
#[derive(Clone, Debug)]
pub enum Change {
    Merge(Object),
    Patch(Patch),
}

/// Caller who reads or writes a profile, by the proof of identity in the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// The app's backend: may write every key.
    App,
    /// A caller who proved their identity as the user. May write every key except `app`.
    User,
    /// A caller who did not prove their identity, if the app does not guard addresses. May write like a user, but the addresses
    /// that it writes are unproven.
    Claimed,
    /// A caller who did not prove their identity, if the app guards addresses. May not see or write addresses, and may not write
    /// `app`.
    Unproven,
}

impl Author {
    /// True if the caller proved that it acts for the user.
    #[must_use]
    pub fn has_proof(self) -> bool {
        matches!(self, Author::App | Author::User)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A key that Tidings reads itself would have the wrong type or contain a control character.
    #[error("the profile would be invalid")]
    Invalid(Vec<Problem>),
    /// Larger than [`MAX_PROFILE`].
    #[error("the profile would have {0} bytes; at most {MAX_PROFILE} are allowed")]
    TooLong(usize),
    /// Deeper than [`MAX_DEPTH`](crate::fields::MAX_DEPTH) levels.
    #[error("the profile would nest deeper than {} levels", crate::fields::MAX_DEPTH)]
    TooDeep,
    #[error(
        "a patch of {operations} operations on a profile of {size} bytes is too much work: operations \u{d7} bytes must not \
         exceed {MAX_WORK}; send fewer operations at a time, or merge pairs instead"
    )]
    TooMuchWork {
        operations: usize,
        /// Size as JSON text, in bytes, before the operation that exceeds the limit.
        size: usize,
    },
    #[error(
        "email, phoneNumber, phone, fcm, apns and web-push subscriptions are addresses of messages: send a bearer token of the \
         user or the API secret, or, for the push token or subscription of this device alone, the device secret that its \
         first connect returned"
    )]
    AddressGuarded,
    #[error("the profile key {APP_KEY} can be written only with the API secret")]
    AppOnly,
    #[error("the profile key {RESERVED_KEY} is reserved: a user cannot be renamed")]
    ReservedKey,
    #[error("the profile would no longer be an object")]
    NoObject,
    /// Index of the operation in the patch.
    #[error("[{0}] cannot be applied: {1}")]
    Inapplicable(usize, super::PatchFailure),
}

impl Change {
    /// Returns the profile after this change. No part of a refused change is applied.
    pub fn apply(&self, before: &Object, author: Author) -> Result<Object, Refusal> {
        let after = match author {
            Author::App | Author::User | Author::Claimed => self.apply_to(before)?,
            Author::Unproven => self.apply_without_addresses(before)?,
        };
        if author != Author::App && before.get(APP_KEY) != after.get(APP_KEY) {
            return Err(Refusal::AppOnly);
        }
        Ok(after)
    }

    fn apply_to(&self, before: &Object) -> Result<Object, Refusal> {
        match self {
            Change::Merge(pairs) => merged(before, pairs),
            Change::Patch(patch) => patch.apply(before),
        }
    }

    /// Applies the change to a copy of the profile without its addresses, so that a caller who may not see them can neither copy nor test
    /// an address.
    fn apply_without_addresses(&self, before: &Object) -> Result<Object, Refusal> {
        let names_address = match self {
            Change::Merge(pairs) => keys::holds_address(pairs),
            Change::Patch(patch) => patch.touches(keys::is_address),
        };
        if names_address {
            return Err(Refusal::AddressGuarded);
        }
        let mut after = self.apply_to(&seen_by(before.clone(), Author::Unproven))?;
        if keys::holds_address(&after) {
            return Err(Refusal::AddressGuarded);
        }
        let addresses = before.iter().filter(|(key, _)| keys::is_address(key));
        after.extend(addresses.map(|(key, value)| (key.clone(), value.clone())));
        check_whole(&after)?;
        Ok(after)
    }

    /// Reports each malformed address that the change writes. Copies and moves of a patch are not followed.
    #[must_use]
    pub fn malformed(&self) -> Vec<Problem> {
        match self {
            Change::Merge(pairs) => malformed("", pairs),
            Change::Patch(patch) => malformed("", &patch.written_pairs()),
        }
    }

    #[must_use]
    pub fn tokens(&self, before: &Object, after: &Object) -> TokenChange {
        match self {
            Change::Merge(pairs) => TokenChange::merged(before, after, &[pairs]),
            Change::Patch(_) => TokenChange::patched(before, after),
        }
    }
}

#[must_use]
pub fn seen_by(mut profile: Object, author: Author) -> Object {
    if author == Author::Unproven {
        profile.retain(|key, _| !keys::is_address(key));
    }
    profile
}

/// Merges pairs into a profile. Top-level keys are replaced, except for `fcm` and `apns`: their members are merged, and new tokens from
/// `tokens` and `token` are appended to `tokens`.
pub fn merged(profile: &Object, pairs: &Object) -> Result<Object, Refusal> {
    let mut after = profile.clone();
    merge(&mut after, pairs.clone());
    check_whole(&after)?;
    Ok(after)
}

pub(super) fn check_whole(profile: &Object) -> Result<(), Refusal> {
    if profile.contains_key(RESERVED_KEY) {
        return Err(Refusal::ReservedKey);
    }
    match json_size(profile) {
        size if size > MAX_PROFILE => Err(Refusal::TooLong(size)),
        _ => Ok(()),
    }
}
