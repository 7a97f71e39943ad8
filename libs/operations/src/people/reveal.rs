//! Showing one target in full.

use domain::target::masked;
use domain::{Action, AppId, Channel, Problem};

use super::targets;
use crate::waiting::database;
use crate::{Caller, Conflict, Object, OperationError, Operations};

/// Minimum and maximum number of characters of a reason.
pub const REASON_LENGTH: (usize, usize) = (3, 200);

/// A target to show, as the caller sees it.
#[derive(Clone, Copy, Debug)]
pub struct MaskedTarget<'a> {
    pub channel: Channel,
    /// Place among the person's targets.
    pub place: usize,
    pub masked: &'a str,
}

/// Returns a target of a person in full. The audit log keeps the reason.
///
/// # Errors
/// Returns [`Object::User`] if there is no such person, and [`Conflict::TargetOvertaken`] if the target at the place is another one.
pub async fn reveal(
    operations: &Operations,
    caller: &Caller,
    (app, identifier): (AppId, &str),
    wanted: MaskedTarget<'_>,
    reason: &str,
) -> Result<String, OperationError> {
    let actor = caller.authorize(Action::TargetReveal, app)?;
    let reason = reason.trim();
    let (least, most) = REASON_LENGTH;
    if !(least..=most).contains(&reason.chars().count()) || reason.chars().any(char::is_control) {
        let message = format!("reason must have {least} to {most} characters, without line breaks");
        return Err(OperationError::Invalid(vec![Problem::new("reason", "invalid_reason", message)]));
    }
    let user = database(operations.store.directory().find_user(app, identifier)).await?;
    let user = user.ok_or(OperationError::NotFound(Object::User))?;
    let target = targets(&user).into_iter().nth(wanted.place);
    let is_it =
        |(channel, target): &(Channel, String)| *channel == wanted.channel && masked(target) == wanted.masked;
    let (channel, target) =
        target.filter(is_it).ok_or(OperationError::Conflict(Conflict::TargetOvertaken))?;
    operations.store.database().note_reveal(app, user.number, (channel, reason), actor).await?;
    Ok(target)
}
