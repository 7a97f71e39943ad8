//! Latest answers of a provider, and its changes.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::{ActorKind, AppId, DeliveryId, Reason, SendId, Status, Timestamp};
use serde_json::Value;
use service_kit::clock;
use store::database::audit::AuditRow;

use crate::waiting::database;
use crate::{Caller, OperationError, Operations, Permission};

/// Number of the latest deliveries whose answers are grouped, and the time in which they were accepted.
const DELIVERIES: i64 = 500;
const ANSWERED_WITHIN: Duration = Duration::from_secs(7 * 86_400);
/// Number of the latest rows of the audit log that are searched for changes of the provider.
const ROWS: i64 = 1_000;
const MOST_CHANGES: usize = 20;

/// Equal answers of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerGroup {
    pub status: Status,
    pub reason: Option<Reason>,
    pub code: String,
    pub number: usize,
    /// Latest of them: its send, its recipient unless erased, the provider's words and the time.
    pub send: SendId,
    pub recipient: Option<String>,
    pub words: String,
    pub at: Option<Timestamp>,
}

/// A change of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub at: Timestamp,
    /// Email of an operator, or the actor as the audit log has it.
    pub by: String,
    /// For instance `provider.disable`.
    pub action: String,
    pub reason: Option<String>,
    /// Members that changed, with the values before and after. Settings and secrets are not recorded.
    pub members: Vec<(String, String, String)>,
}

/// Groups the last answers of a provider to the app's latest deliveries, most frequent first.
pub async fn answers(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    identifier: &str,
) -> Result<Vec<AnswerGroup>, OperationError> {
    caller.may(Permission::View, app)?;
    let deliveries = operations.store.deliveries();
    let since = clock::now() - ANSWERED_WITHIN;
    let states = database(deliveries.recent_states(app, since, DELIVERIES)).await?;
    let ids: Vec<DeliveryId> = states.iter().map(|state| state.id).collect();
    let mut answers = database(deliveries.latest_answers(app, &ids)).await?;
    answers.retain(|answer| answer.provider.as_deref() == Some(identifier) && !answer.code.is_empty());
    answers.sort_by_key(|answer| std::cmp::Reverse(answer.at));
    let mut groups: BTreeMap<(Status, Option<Reason>, String), AnswerGroup> = BTreeMap::new();
    for answer in answers {
        let group = groups.entry((answer.status, answer.reason, answer.code.clone()));
        let group = group.or_insert(AnswerGroup {
            status: answer.status,
            reason: answer.reason,
            code: answer.code,
            number: 0,
            send: answer.send,
            recipient: answer.recipient,
            words: answer.words,
            at: answer.at,
        });
        group.number += 1;
    }
    let mut groups: Vec<AnswerGroup> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.number));
    Ok(groups)
}

/// Lists the latest changes of a provider, from the audit log, latest first.
pub async fn history(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    identifier: &str,
) -> Result<Vec<Change>, OperationError> {
    caller.may(Permission::View, app)?;
    let rows = database(operations.store.database().list_audit(app.into(), ROWS)).await?;
    let is_own = |row: &AuditRow| row.subject == identifier && row.action.starts_with("provider.");
    let rows: Vec<AuditRow> = rows.into_iter().filter(is_own).take(MOST_CHANGES).collect();
    let emails = if rows.iter().any(|row| row.actor_kind == Some(ActorKind::Operator)) {
        let operators = database(operations.store.control().list_operators()).await?;
        operators.into_iter().map(|operator| (format!("operator:{}", operator.id), operator.email)).collect()
    } else {
        BTreeMap::new()
    };
    Ok(rows.into_iter().map(|row| change(row, &emails)).collect())
}

fn change(row: AuditRow, emails: &BTreeMap<String, String>) -> Change {
    let member = |value: &Option<Value>, name: &str| match value.as_ref().and_then(|value| value.get(name)) {
        None | Some(Value::Null) => "none".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let names = row.after.as_ref().and_then(Value::as_object).into_iter().flat_map(|after| after.keys());
    let members = names
        .filter(|name| row.before.is_some() && !["version", "reason"].contains(&name.as_str()))
        .map(|name| (name.clone(), member(&row.before, name), member(&row.after, name)))
        .filter(|(_, before, after)| before != after)
        .collect();
    let reason = row.after.as_ref().and_then(|after| after["reason"].as_str()).map(str::to_owned);
    let by = emails.get(&row.actor).cloned().unwrap_or(row.actor);
    Change { at: row.at, by, action: row.action, reason, members }
}
