//! Variables that a strict send lacks. Other sends are accepted, and planning notes what they lack.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::content::Object;
use domain::id::TemplateId;
use domain::{AppId, Problem, SendRequest};
use moka::future::Cache;
use planning::TemplateNeeds;
use store::control::template::TemplateVersion;
use tokio::task::spawn_blocking;

use crate::OperationError;

const CAPACITY: u64 = 1_000;

/// Cache of the needs of template versions, which never change.
pub(crate) struct KnownNeeds(Cache<(AppId, TemplateId, i32), Arc<TemplateNeeds>>);

impl KnownNeeds {
    pub(crate) fn new() -> KnownNeeds {
        KnownNeeds(Cache::new(CAPACITY))
    }

    /// Returns a problem for each variable that the send lacks for all or some of its recipients.
    pub(crate) async fn problems(
        &self,
        app: AppId,
        version: TemplateVersion,
        send: &SendRequest,
    ) -> Result<Vec<Problem>, OperationError> {
        let key = (app, version.id, version.version);
        let needs = match self.0.get(&key).await {
            Some(needs) => needs,
            None => {
                let channels = version.channels;
                let needs = spawn_blocking(move || Arc::new(TemplateNeeds::of(&channels))).await;
                let needs = needs.map_err(OperationError::defect)?;
                self.0.insert(key, Arc::clone(&needs)).await;
                needs
            }
        };
        Ok(missing(&needs, send))
    }
}

fn missing(needs: &TemplateNeeds, send: &SendRequest) -> Vec<Problem> {
    let nothing = Object::new();
    let for_all = needs.missing(send, &nothing);
    // Data of a recipient may replace a complete member with an incomplete one.
    let own = send.recipients.iter().filter(|recipient| !recipient.data.is_empty());
    let for_some: BTreeMap<&str, (&str, &str)> = own
        .flat_map(|recipient| {
            let missing = needs.missing(send, &recipient.data).into_iter();
            missing.map(move |(variable, text)| (variable, (text, recipient.identifier.as_str())))
        })
        .collect();
    let has_plain =
        !send.topics.is_empty() || send.recipients.iter().any(|recipient| recipient.data.is_empty());
    let for_plain =
        for_all.into_iter().filter(|_| has_plain).map(|(variable, text)| (variable, (text, None)));
    let named = for_some.into_iter().map(|(variable, (text, who))| (variable, (text, Some(who))));
    // A variable that plain recipients lack is reported once, for all of them.
    let problems: BTreeMap<_, _> = named.chain(for_plain).collect();
    problems.into_iter().map(|(variable, (text, who))| problem(variable, text, who)).collect()
}

fn problem(variable: &str, text: &str, recipient: Option<&str>) -> Problem {
    let field = format!("data.{variable}");
    let lacking = recipient.map(|recipient| format!(" for the recipient {recipient:?}")).unwrap_or_default();
    let message = format!("{field} is missing{lacking}; the template shows it in {text}");
    Problem::new(field, "missing_data", message)
}
