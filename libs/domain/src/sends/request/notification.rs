//! `notification`: the content of a send.

use crate::Problem;
use crate::body::kind::{Any, FreeObject, Icon, Id, Identifier, Inline, Link, List, Text};
use crate::content::InAppContent;
use crate::id::TemplateId;
use crate::request::{MAX_MESSAGE, MAX_REFERENCE, MAX_TITLE};
use crate::send::TemplateRef;

crate::body! {
    /// Content of a notification: a template, or plain texts. Without a template, a title is required.
    pub(super) struct NotificationContent {
        optional title: Text<MAX_TITLE>,
        optional message: Text<MAX_MESSAGE>,
        optional icon: Icon<MAX_REFERENCE>,
        /// Link of the notification: what a click opens, the button of the email, and the last line of the SMS. Email and SMS show only
        /// `http` and `https` links.
        optional url: Link<MAX_REFERENCE>,
        optional template_identifier as "templateIdentifier": Identifier,
        optional template_id as "templateId": Any<Id>,
        /// Alias of `templateIdentifier`.
        optional workflow: Inline<Workflow>,
        optional category: Identifier,
        optional data: FreeObject,
        /// Content blocks. Clients receive them unchanged.
        optional blocks: List<FreeObject>,
    }
}

crate::body! {
    struct Workflow {
        optional identifier: Identifier,
        /// Same as `cancellationKey` of the send.
        optional cancellation_key as "cancellationKey": Identifier,
    }
}

#[derive(Default)]
pub(super) struct Notification {
    pub(super) content: InAppContent,
    pub(super) template: Option<TemplateRef>,
    pub(super) category: Option<String>,
    pub(super) cancellation_key: Option<String>,
}

impl NotificationContent {
    pub(super) fn read(mut self, strict: bool, problems: &mut Vec<Problem>) -> Notification {
        let named = ["templateIdentifier", "templateId", "workflow"].iter().any(|key| self.fields.has(key));
        let title_given = self.fields.has("title");
        let content = InAppContent {
            title: self.title(problems),
            message: self.message(problems),
            icon: self.icon(problems),
            url: self.url(problems),
            data: self.data(problems).unwrap_or_default(),
            blocks: self.blocks(problems).unwrap_or_default(),
        };
        for (index, _) in content.blocks.iter().enumerate().filter(|(_, block)| !block.is_object()) {
            let path = format!("notification.blocks[{index}]");
            problems.push(Problem::new(&path, "invalid_type", format!("{path} must be an object")));
        }
        let title_missing = !title_given || content.title.as_deref() == Some("");
        let (template, cancellation_key) = self.read_template(strict, problems);
        let category = self.category(problems);
        self.fields.finish(strict, problems);
        if !named && title_missing {
            let message =
                "notification.title is required unless notification.templateIdentifier names a template";
            problems.push(Problem::new("notification.title", "required", message));
        }
        Notification { content, template, category, cancellation_key }
    }

    /// Returns the template, and the cancellation key of the workflow.
    fn read_template(
        &mut self,
        strict: bool,
        problems: &mut Vec<Problem>,
    ) -> (Option<TemplateRef>, Option<String>) {
        let identifier = self.template_identifier(problems);
        let mut key = None;
        let workflow = self.workflow(problems).and_then(|mut workflow| {
            let identifier = workflow.identifier(problems);
            key = workflow.cancellation_key(problems);
            workflow.fields.finish(strict, problems);
            identifier
        });
        if let Some(id) = self.template_id(problems) {
            match id.as_i64() {
                Some(id) if identifier.is_none() && workflow.is_none() => {
                    return (Some(TemplateRef::Id(TemplateId(id))), key);
                }
                Some(_) => {}
                None => {
                    let message = "notification.templateId must be a whole number";
                    problems.push(Problem::new("notification.templateId", "invalid_type", message));
                }
            }
        }
        (identifier.or(workflow).map(TemplateRef::Identifier), key)
    }
}
