//! Pushes that are too large for a push service even without a body.

use crate::OperationError;
use credentials::click;
use credentials::link::LinkError;
use domain::content::{Content, InAppContent, PushContent};
use domain::overrides::PushOverride;
use domain::{Answer, AppId, Channel, Problem, SendId, SendRequest, UserNumber, mobile_push, web_push};

use crate::Sends;

impl Sends {
    /// Returns a problem if the send selects push channels only, and its data fits into no push of any of them. With other
    /// channels the send is accepted: an inbox item and a template may use the data.
    pub(crate) fn data_too_large_for_push(&self, send: &SendRequest) -> Option<Problem> {
        let channels = send.channels.as_ref()?;
        let answers: Option<Vec<Answer>> =
            channels.iter().map(|&channel| without_fit(send, channel)).collect();
        let answer = answers?.into_iter().next()?;
        let message =
            format!("data does not fit into a push, and the send uses no other channel: {}", answer.message);
        Some(Problem::new("data", "too_long", message))
    }

    /// Returns a click link of the length that the worker's links have. None if the service has no public URL.
    pub(crate) async fn sample_click_url(
        &self,
        app: AppId,
        send: SendId,
    ) -> Result<Option<String>, OperationError> {
        let user = UserNumber(i64::MAX);
        match click::url(&self.links, self.public_url.as_deref(), app, user, send).await {
            // The worker cannot send such an app's web pushes at all.
            Err(LinkError::NoKey(_)) => Ok(None),
            url => Ok(url?),
        }
    }
}

/// Returns the worker's answer to a rendered push that is too large for the push service of its target.
pub(crate) fn too_large(
    channel: Channel,
    target: &str,
    content: &Content,
    click_url: Option<&str>,
) -> Option<Answer> {
    let Content::Push(content) = content else { return None };
    match channel {
        Channel::WebPush => web_push::too_large(content, click_url),
        Channel::MobilePush => mobile_push::too_large(content, target.split_once(':')?.0),
        _ => None,
    }
}

/// Returns the answer of the worker if the data alone is too large for every push of this channel.
fn without_fit(send: &SendRequest, channel: Channel) -> Option<Answer> {
    let none = PushOverride::default();
    let own = send.overrides.push(channel).unwrap_or(&none);
    let InAppContent { data, .. } = &send.content;
    let mut data = data.clone();
    data.extend(own.data.clone());
    let content = PushContent { data, options: own.options.clone(), ..PushContent::default() };
    match channel {
        Channel::WebPush => web_push::too_large(&content, None),
        Channel::MobilePush => {
            let answers: Option<Vec<Answer>> = mobile_push::SERVICES
                .into_iter()
                .map(|service| mobile_push::too_large(&content, service))
                .collect();
            answers?.into_iter().next()
        }
        _ => None,
    }
}
