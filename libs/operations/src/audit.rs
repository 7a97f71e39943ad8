//! The audit log.

use store::database::audit::{AuditFilter, AuditRow, AuditScope};

use crate::{Caller, OperationError, Operations, Permission};

/// Lists at most `limit` rows, latest first. Rows of all apps and rows that belong to no app need the permission in the installation.
pub async fn list(
    operations: &Operations,
    caller: &Caller,
    filter: AuditFilter,
    limit: i64,
) -> Result<Vec<AuditRow>, OperationError> {
    let app = match filter.scope {
        AuditScope::App(app) => Some(app),
        AuditScope::All | AuditScope::Installation => None,
    };
    caller.may(Permission::ReadAuditLog, app)?;
    Ok(operations.store.database().list_audit(filter, limit).await?)
}
