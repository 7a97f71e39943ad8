//! Checks of a send against the data of its app.

use std::collections::HashSet;

use domain::send::TemplateRef;
use domain::{AppId, Problem, SendRequest};

use crate::sends::submission::Submission;
use crate::waiting::database;
use crate::{Caller, OperationError, Permission, Sends};

impl Sends {
    /// Checks the times, the template and the category of a send. With `reject_unknown`, it also checks the recipients and
    /// topics; with `strict`, also the topics and the data that the template needs. It also checks the overrides against the app's providers, and the size of the data if the
    /// send uses push channels only. It reads the template from the database and not from a cache, because the app may have created
    /// the template a moment ago.
    pub(crate) async fn check(&self, submission: &Submission) -> Result<(), OperationError> {
        let Submission { app, send, .. } = submission;
        let mut problems = submission.untimely.clone();
        if let Some(template) = &send.template {
            match database(self.store.control().find_template(*app, template)).await? {
                None => problems.push(unknown_template(template)),
                Some(version) if submission.strict => {
                    problems.extend(self.needs.problems(*app, version, send).await?);
                }
                Some(_) => {}
            }
        }
        if let Some(category) = &send.category {
            self.categories.check(&self.store, *app, category).await?;
        }
        if submission.reject_unknown {
            problems.extend(self.unknown_recipients(*app, send).await?);
        }
        if (submission.strict || submission.reject_unknown) && send.has_topics() {
            let unknown = database(self.store.directory().unknown_topics(*app, &send.topics)).await?;
            problems.extend(unknown.iter().map(|topic| unknown_topic(topic)));
        }
        problems.extend(self.provider_problems(*app, send, submission.strict).await?);
        problems.extend(self.data_too_large_for_push(send));
        if problems.is_empty() { Ok(()) } else { Err(OperationError::Invalid(problems)) }
    }

    /// Returns a problem if the app has no such template. Callers report it together with the problems of an invalid body.
    pub async fn unknown_template(
        &self,
        caller: &Caller,
        app: AppId,
        template: &TemplateRef,
    ) -> Result<Option<Problem>, OperationError> {
        caller.may(Permission::Send, app)?;
        let found = database(self.store.control().find_template(app, template)).await?;
        Ok(found.is_none().then(|| unknown_template(template)))
    }

    /// Returns a problem for each unknown recipient. A recipient with an inline profile is never unknown, because the send
    /// creates that user.
    async fn unknown_recipients(
        &self,
        app: AppId,
        send: &SendRequest,
    ) -> Result<Vec<Problem>, OperationError> {
        let plain = send.recipients.iter().filter(|recipient| recipient.profile.is_none());
        let named: Vec<&str> = plain.map(|recipient| recipient.identifier.as_str()).collect();
        let known: HashSet<String> =
            database(self.store.directory().known_identifiers(app, &named)).await?.into_iter().collect();
        let unknown = named.into_iter().filter(|identifier| !known.contains(*identifier));
        Ok(unknown.map(unknown_recipient).collect())
    }
}

fn unknown_template(template: &TemplateRef) -> Problem {
    let (field, name) = match template {
        TemplateRef::Identifier(identifier) => ("notification.templateIdentifier", identifier.clone()),
        TemplateRef::Id(id) => ("notification.templateId", id.to_string()),
    };
    Problem::new(field, "unknown_template", format!("{field}: the template {name:?} does not exist"))
}

fn unknown_topic(identifier: &str) -> Problem {
    let message = format!("sendTo.topics: the topic {identifier:?} does not exist");
    Problem::new("sendTo.topics", "unknown_topic", message)
}

fn unknown_recipient(identifier: &str) -> Problem {
    let message = format!("sendTo.recipients: the user {identifier:?} does not exist");
    Problem::new("sendTo.recipients", "unknown_recipient", message)
}
