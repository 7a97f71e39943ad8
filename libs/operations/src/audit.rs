//! The audit log.

use std::collections::HashMap;

use domain::{Action, Actor, ActorKind, AppId, Timestamp};
use store::database::audit::{AuditFilter, AuditRow, AuditScope};

use crate::waiting::database;
use crate::{Caller, OperationError, Operations, Permission};

/// Maximum number of rows that a page of a search reads.
const SEARCHED: usize = 1_000;

/// A row with the email addresses of the operators that it names by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedRow {
    pub row: AuditRow,
    /// Operator who made the change; the actor's text in the log otherwise.
    pub actor: String,
    /// Operator that the change affected; otherwise, the subject in the log.
    pub subject: String,
}

/// Rows of a search, latest first.
#[derive(Debug, Default)]
pub struct AuditPage {
    pub rows: Vec<NamedRow>,
    /// Row after which the search continues; None at the end.
    pub next: Option<i64>,
}

/// Checks that a caller may take an action, and returns the author of its row. Backends take the action with each deployment, so they get no
/// row.
pub(crate) fn author(caller: &Caller, action: Action, app: AppId) -> Result<Option<&Actor>, OperationError> {
    caller.may(Permission::of(action), app)?;
    Ok(caller.actor().filter(|actor| actor.kind() != ActorKind::App))
}

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

/// Lists at most `limit` rows of an app or, if `app` is None, all rows: those for which `is_wanted` returns true, among the next 1,000 before a
/// row.
pub async fn page(
    operations: &Operations,
    caller: &Caller,
    app: Option<AppId>,
    (before, since): (Option<i64>, Option<Timestamp>),
    limit: usize,
    is_wanted: impl Fn(&NamedRow) -> bool,
) -> Result<AuditPage, OperationError> {
    caller.may(Permission::ReadAuditLog, app)?;
    let most = i64::try_from(SEARCHED).unwrap_or(i64::MAX);
    let read = database(operations.store.database().audit_before(app, before, since, most)).await?;
    let operators = database(operations.store.control().list_operators()).await?;
    let emails: HashMap<_, _> = operators.into_iter().map(|operator| (operator.id, operator.email)).collect();
    let last = read.last().map(|row| row.id).filter(|_| read.len() == SEARCHED);
    let named = read.into_iter().map(|row| named(row, &emails)).filter(is_wanted);
    let mut rows: Vec<_> = named.take(limit.saturating_add(1)).collect();
    let next = if rows.len() > limit {
        rows.truncate(limit);
        rows.last().map(|named| named.row.id)
    } else {
        last
    };
    Ok(AuditPage { rows, next })
}

fn named(row: AuditRow, emails: &HashMap<i64, String>) -> NamedRow {
    let email = |number: &str| number.parse().ok().and_then(|number| emails.get(&number).cloned());
    let actor = row.actor.strip_prefix("operator:").and_then(email);
    let subject = row.action.starts_with("operator.").then(|| email(&row.subject)).flatten();
    NamedRow {
        actor: actor.unwrap_or_else(|| row.actor.clone()),
        subject: subject.unwrap_or_else(|| row.subject.clone()),
        row,
    }
}
