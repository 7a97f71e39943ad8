//! A write to a profile, and why it may be refused.

use super::keys::{RESERVED_KEY, addresses_differ};
use super::{MAX_PROFILE, MAX_WORK, Patch, TokenChange, merge};
use crate::Problem;
use crate::content::Object;
use crate::size::json_size;

/// A write to a profile that is sound in itself. What comes of it depends on the profile.
#[derive(Clone, Debug)]
pub enum Change {
    /// Pairs are merged onto the profile.
    Merge(Object),
    /// A JSON Patch is applied to it.
    Patch(Patch),
}

/// Whether whoever writes may change where messages go: the keys `email`, `phoneNumber` and `phone`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// They are keys like any other.
    Open,
    /// They must stay as they are.
    Guarded,
}

/// Why a write to a profile is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// What the service reads itself would have a wrong type. The fields are those of the profile.
    #[error("the profile would be invalid")]
    Invalid(Vec<Problem>),
    /// The profile would be larger than [`MAX_PROFILE`].
    #[error("the profile would have {0} bytes; at most {MAX_PROFILE} are allowed")]
    TooLong(usize),
    /// The profile would nest deeper than requests may.
    #[error("the profile would nest deeper than {} levels", crate::fields::MAX_DEPTH)]
    TooDeep,
    /// The operations of a patch would work on more than [`MAX_WORK`] bytes.
    #[error(
        "a patch of {operations} operations on a profile of {size} bytes is too much work: operations \u{d7} bytes must not \
         exceed {MAX_WORK}; send fewer operations at a time, or merge pairs instead"
    )]
    TooMuchWork {
        /// Operations of the patch.
        operations: usize,
        /// Bytes of the profile, as JSON text, before the operation that exceeds the budget.
        size: usize,
    },
    /// Another address than before, by somebody who may not write any.
    #[error(
        "email, phoneNumber and phone of a profile are written with the API secret or a bearer token; `tidings app set` can \
         open them"
    )]
    AddressGuarded,
    /// The profile would have the reserved key.
    #[error("the profile key {RESERVED_KEY} is reserved: a user cannot be renamed")]
    ReservedKey,
    /// The profile would not be an object.
    #[error("the patch would make the profile something else than an object")]
    NoObject,
    /// An operation of a patch, named by its index, cannot be applied.
    #[error("[{0}] cannot be applied: {1}")]
    Inapplicable(usize, super::Inapplicable),
}

impl Change {
    /// The profile after this change.
    ///
    /// # Errors
    /// See [`Refusal`]; the change is then not made in any part.
    pub fn apply(&self, before: &Object, addresses: Addresses) -> Result<Object, Refusal> {
        let after = match self {
            Change::Merge(pairs) => merged(before, pairs)?,
            Change::Patch(patch) => patch.apply(before)?,
        };
        if addresses == Addresses::Guarded && addresses_differ(before, &after) {
            return Err(Refusal::AddressGuarded);
        }
        Ok(after)
    }

    /// What the change did to the push tokens of the profile.
    #[must_use]
    pub fn tokens(&self, before: &Object, after: &Object) -> TokenChange {
        match self {
            Change::Merge(pairs) => TokenChange::merged(before, after, &[pairs]),
            Change::Patch(_) => TokenChange::patched(before, after),
        }
    }
}

/// The profile after a merge: top-level keys replace, `fcm` and `apns` merge their members, where `token` is appended
/// to `tokens` and `tokens` are united.
///
/// # Errors
/// The profile would have the reserved key, or be too long.
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
