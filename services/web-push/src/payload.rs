//! Payload for a browser's service worker. `clients/web-push/README.md` describes its format.

use domain::content::{Object, PushContent};
use domain::{DeliveryId, SendId};
use serde::Serialize;

/// The message before encryption. Members without a value are left out, because the size is limited.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Payload<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icon: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
    #[serde(skip_serializing_if = "Object::is_empty")]
    data: &'a Object,
    delivery_id: DeliveryId,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<SendId>,
    /// URL to which the browser reports a click, by an empty POST.
    #[serde(skip_serializing_if = "Option::is_none")]
    click_url: Option<&'a str>,
}

impl<'a> Payload<'a> {
    /// Creates the payload of a message. `body` replaces the body of `content`.
    pub(crate) fn new(
        content: &'a PushContent,
        delivery_id: DeliveryId,
        request_id: Option<SendId>,
        click_url: Option<&'a str>,
        body: Option<&'a str>,
    ) -> Payload<'a> {
        Payload {
            title: content.title.as_deref(),
            body,
            icon: content.icon.as_deref(),
            url: content.url.as_deref(),
            data: &content.data,
            delivery_id,
            request_id,
            click_url,
        }
    }
}
