//! Test sends: real sends of a text, published or not, to the operator or to a person of the app who is marked for tests.

use std::sync::Arc;
use std::time::Duration;

use domain::content::{Content, EmailContent, InAppContent, Object, PushContent};
use domain::overrides::{EmailOverride, Overrides, PushOverride, SmsOverride};
use domain::profile::APP_KEY;
use domain::request::Files;
use domain::send::{Lane, Recipient};
use domain::{Action, AppId, Channel, SendId, SendRequest};
use serde_json::{Value, json};
use store::control::app::App;

use super::{Preview, Sample, TemplateDocument, TemplateError, preview_draft};
use crate::operators::rate::Tries;
use crate::sends::dry_run::RenderedContent;
use crate::sends::submission::Submission;
use crate::{Caller, OperationError, Operations, Permission, Sends, users};

/// Test sends of an operator in an hour.
pub const MOST_AN_HOUR: u32 = 20;
const HOUR: Duration = Duration::from_secs(3_600);
const MARK: &str = "[Test]";
/// Member of the profile's key `app` that marks a person for tests.
const TEST: &str = "test";

/// Use cases of test sends, and what they share.
pub struct TestSends {
    sends: Arc<Sends>,
    tries: Tries<String>,
}

/// Recipient of a test send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestRecipient<'a> {
    /// The address with which the operator signs in. Gets emails only.
    Operator(&'a str),
    /// Identifier of a person who is marked for tests.
    Person(&'a str),
}

/// A text for a test send.
pub struct TestText<'a> {
    pub document: &'a TemplateDocument,
    pub sample: Sample,
    /// The only channel to use; None for all that the text has.
    pub channel: Option<Channel>,
}

/// Reason why nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum TestSendError {
    #[error("You have used up the {MOST_AN_HOUR} test sends of this hour.")]
    UsedUp,
    #[error(
        "This person is not marked for tests: the profile has no \"app\": {{\"test\": true}}, which only the app's backend can write."
    )]
    NotMarked,
    #[error("To yourself, only emails can be sent, and the text has none.")]
    OnlyEmail,
    #[error("The text has no content for this channel.")]
    NoContent,
    #[error("The content for {channel} cannot be rendered: {error}.")]
    NotRendered { channel: Channel, error: TemplateError },
    #[error(transparent)]
    Failed(#[from] OperationError),
}

impl TestRecipient<'_> {
    fn is_operator(self) -> bool {
        matches!(self, TestRecipient::Operator(_))
    }
}

impl TestSends {
    #[must_use]
    pub fn new(sends: Arc<Sends>) -> TestSends {
        TestSends { sends, tries: Tries::per(HOUR, MOST_AN_HOUR) }
    }

    /// Sends a text as it is, one send for each channel, and returns their ids. The sends have no category, so preferences do not apply. The
    /// audit log has a row for the call, also if it fails afterwards.
    pub async fn send(
        &self,
        operations: &Operations,
        caller: &Caller,
        app: &App,
        text: TestText<'_>,
        to: TestRecipient<'_>,
    ) -> Result<Vec<(Channel, SendId)>, TestSendError> {
        let actor = caller.authorize(Action::TemplateTestSend, app.id)?;
        let TestText { document, sample, channel } = text;
        let (recipient, sample) = match to {
            TestRecipient::Operator(email) => (own_recipient(email), sample),
            TestRecipient::Person(identifier) => {
                marked(operations, caller, app.id, identifier, sample).await?
            }
        };
        let data = sample.variables().clone();
        let preview = preview_draft(operations, caller, app, document, sample).await?;
        let contents = selected(preview, channel, to)?;
        let channels: Vec<Channel> = contents.iter().map(|(channel, _)| *channel).collect();
        if !self.tries.admit(&actor.to_string()) {
            return Err(TestSendError::UsedUp);
        }
        let noted = json!({"channels": channels, "to": if to.is_operator() { "operator" } else { "person" }});
        operations
            .store
            .control()
            .note_test_send(app.id, document.identifier(), noted, actor)
            .await
            .map_err(OperationError::from)?;
        let mut sent = Vec::new();
        for (channel, content) in contents {
            let send = send(channel, content, &document.name, &data, recipient.clone());
            let id = self.sends.accept(caller, submission(app, send)).await?;
            sent.push((channel, id));
        }
        Ok(sent)
    }
}

/// Returns a person with the operator's address, who is created with the first test send.
fn own_recipient(email: &str) -> Recipient {
    let profile = json!({"email": email, APP_KEY: {TEST: true}});
    let profile = if let Value::Object(profile) = profile { profile } else { Object::new() };
    Recipient { identifier: format!("operator:{email}"), profile: Some(profile), data: Object::new() }
}

/// Returns a person who is marked for tests, and the sample with the person as recipient.
async fn marked(
    operations: &Operations,
    caller: &Caller,
    app: AppId,
    identifier: &str,
    sample: Sample,
) -> Result<(Recipient, Sample), TestSendError> {
    caller.may(Permission::ViewUsers, app)?;
    let user = users::find(operations, caller, app, identifier).await?.0;
    let is_marked = user.profile.get(APP_KEY).and_then(|own| own.get(TEST)) == Some(&Value::Bool(true));
    if !is_marked {
        return Err(TestSendError::NotMarked);
    }
    let sample = sample.for_user(operations, caller, app, identifier).await?;
    Ok((Recipient::plain(identifier.to_owned()), sample))
}

fn selected(
    preview: Preview,
    channel: Option<Channel>,
    to: TestRecipient<'_>,
) -> Result<Vec<(Channel, RenderedContent)>, TestSendError> {
    let only = if to.is_operator() { Some(Channel::Email) } else { channel };
    if to.is_operator() && channel.is_some_and(|channel| channel != Channel::Email) {
        return Err(TestSendError::OnlyEmail);
    }
    let mut contents = Vec::new();
    for (found, content) in preview.contents {
        if only.is_none_or(|only| only == found) {
            contents.push((
                found,
                content.map_err(|error| TestSendError::NotRendered { channel: found, error })?,
            ));
        }
    }
    if !contents.is_empty() {
        Ok(contents)
    } else if to.is_operator() {
        Err(TestSendError::OnlyEmail)
    } else {
        Err(TestSendError::NoContent)
    }
}

fn marked_title(title: Option<&str>) -> String {
    [MARK, title.unwrap_or_default()].join(" ").trim_end().to_owned()
}

/// Returns a send of one channel whose texts are the rendered ones.
fn send(
    channel: Channel,
    content: RenderedContent,
    name: &str,
    data: &Object,
    recipient: Recipient,
) -> SendRequest {
    let mut data = data.clone();
    data.remove("recipient");
    let mut own = InAppContent { data, ..InAppContent::default() };
    let mut overrides = Overrides::default();
    match content {
        RenderedContent::InApp(content) => {
            let title = Some(marked_title(content.title.as_deref()));
            own = InAppContent { title, ..content };
        }
        RenderedContent::External(Content::Email(EmailContent { subject, text, html, .. })) => {
            let subject = marked_title(Some(&subject));
            own.title = Some(subject.clone());
            let email = EmailOverride { subject: Some(subject), text, html, ..EmailOverride::default() };
            overrides.email = Some(Box::new(email));
        }
        RenderedContent::External(Content::Sms(content)) => {
            own.title = Some(marked_title(Some(name)));
            overrides.sms = Some(SmsOverride { text: Some(content.text), from: None });
        }
        RenderedContent::External(Content::Push(PushContent { title, body, icon, url, .. })) => {
            let title = Some(marked_title(title.as_deref()));
            own.title.clone_from(&title);
            let push = PushOverride { title, body, icon, url, ..PushOverride::default() };
            if channel == Channel::WebPush {
                overrides.web_push = Some(push);
            } else {
                overrides.mobile_push = Some(push);
            }
        }
    }
    SendRequest {
        content: own,
        template: None,
        category: None,
        recipients: vec![recipient],
        topics: Vec::new(),
        exclude: Vec::new(),
        channels: Some(vec![channel]),
        proven_targets: false,
        cancellation_key: None,
        overrides,
        attachments: Vec::new(),
        send_at: None,
        expires_at: None,
        lane: Lane::Transactional,
        idempotency: None,
    }
}

fn submission(app: &App, send: SendRequest) -> Submission {
    Submission {
        app: app.id,
        send: Box::new(send),
        files: Files::default(),
        transactional_rate: app.settings.transactional_rate,
        volume_limits: [app.settings.max_send_megabytes, app.settings.max_file_megabytes],
        strict: false,
        untimely: Vec::new(),
        reject_unknown: false,
        idempotency: None,
    }
}
