//! Users.

use domain::event::UserErased;
use domain::id::partition;
use domain::{AppId, Envelope, Event, StreamName};
use service_kit::{clock, trace};
use store::deliveries::timer::NewTimer;

use crate::waiting::database;
use crate::{Caller, Object, OperationError, Operations, Permission};

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
    caller.may(Permission::EraseUsers, app)?;
    let begun = database(operations.store.erasure().erase_user(app, identifier, clock::now())).await?;
    let erasure = begun.ok_or(OperationError::NotFound(Object::User))?;
    let user = erasure.user();
    let erased = UserErased { user, digest: erasure.digest() };
    let timer = erasure_timer(app, erased, partitions)?;
    database(erasure.commit(&timer, caller.actor())).await?;
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
    Ok(NewTimer { id, due_at: now, stream, message, app, send_id: None, user: None })
}
