//! Suppressions of targets that a provider reported as dead.

use domain::target::masked;
use domain::{Action, AppId, Channel, DeliveryId};
use store::deliveries::suppression::{LiftedSuppression, SuppressedTarget, Suppression, SuppressionFilter};

use crate::waiting::database;
use crate::{Caller, Object, OperationError, Operations, Permission};

/// Lists at most `limit` suppressions, latest first. Targets are masked unless `reveal` is true.
pub async fn list(
    operations: &Operations,
    caller: &Caller,
    filter: SuppressionFilter,
    limit: i64,
    reveal: bool,
) -> Result<Vec<Suppression>, OperationError> {
    caller.may(if reveal { Permission::RevealTargets } else { Permission::View }, filter.app)?;
    let mut found = operations.store.deliveries().list_suppressions(filter, limit).await?;
    if !reveal {
        for suppression in &mut found {
            suppression.target = masked(&suppression.target);
        }
    }
    Ok(found)
}

/// Lifts the suppression of a target, which is given in full or as the id of the delivery that led to the suppression. A token
/// or subscription that was removed is restored.
///
/// # Errors
/// Returns [`Object::Suppression`] if there is no such suppression.
pub async fn lift(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    channel: Channel,
    target: &str,
) -> Result<LiftedSuppression, OperationError> {
    let actor = caller.authorize(Action::SuppressionLift, app)?;
    let deliveries = operations.store.deliveries();
    let lifted = deliveries.lift_suppression(app, channel, target, actor).await?;
    lifted.ok_or(OperationError::NotFound(Object::Suppression))
}

/// Finds the suppression that a delivery led to, to confirm that it is to be lifted. Its target is masked.
///
/// # Errors
/// Returns [`Object::Suppression`] if there is no such suppression.
pub async fn find(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    channel: Channel,
    delivery: DeliveryId,
) -> Result<SuppressedTarget, OperationError> {
    caller.may(Permission::LiftSuppressions, app)?;
    let found = database(operations.store.deliveries().suppression_by(app, channel, delivery)).await?;
    let mut found = found.ok_or(OperationError::NotFound(Object::Suppression))?;
    found.target = masked(&found.target);
    Ok(found)
}
