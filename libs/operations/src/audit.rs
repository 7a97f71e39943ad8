//! The audit log.

use domain::{AppId, Timestamp};
use store::database::audit::AuditRow;

use crate::{Caller, OperationError, Operations, Permission};

/// Lists at most `limit` rows of an app, latest first. If `since` is given, lists only rows from that time on.
pub async fn list(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    since: Option<Timestamp>,
    limit: i64,
) -> Result<Vec<AuditRow>, OperationError> {
    caller.may(Permission::ReadAuditLog, app)?;
    Ok(operations.store.database().list_audit(app, since, limit).await?)
}
