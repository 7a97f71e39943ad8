//! Payload for a browser's service worker; `clients/web-push/README.md` describes its format.

use serde::Serialize;
use uuid::Uuid;

use crate::content::{Object, PushContent};
use crate::excerpt::{Cut, fitting};
use crate::size::json_size;
use crate::{Answer, DeliveryId, Reason, SendId};

/// Largest message before its encryption, in bytes: 4,096 bytes (RFC 8030, section 7.2) less what RFC 8188 and RFC 8291 add.
pub const MAX_PLAINTEXT: usize = 3_993;

/// Members without a value are left out, because the size is limited.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Payload<'a> {
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
    /// `body` replaces the body of `content`.
    #[must_use]
    pub fn new(
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

/// Returns the worker's answer if a message is too large for push services even without a body, so that cutting the body cannot help.
#[must_use]
pub fn too_large(content: &PushContent, click_url: Option<&str>) -> Option<Answer> {
    // The size does not depend on the values of the ids.
    let (delivery, send) = (DeliveryId(Uuid::nil()), SendId(Uuid::nil()));
    let size = json_size(&Payload::new(content, delivery, Some(send), click_url, None));
    (size > MAX_PLAINTEXT).then(|| oversized(size))
}

/// Returns how the worker cuts the body of a message; None if it is sent whole.
///
/// # Errors
/// Returns the worker's answer if the message is too large even without a body.
pub fn cut(content: &PushContent) -> Result<Option<Cut>, Answer> {
    let (delivery, send) = (DeliveryId(Uuid::nil()), SendId(Uuid::nil()));
    let size = |body: &str| {
        let body = (!body.is_empty()).then_some(body);
        json_size(&Payload::new(content, delivery, Some(send), None, body))
    };
    let fitted = fitting(content.body.clone().unwrap_or_default(), MAX_PLAINTEXT, size);
    fitted.map(|fitted| fitted.cut).ok_or_else(|| oversized(size("")))
}

#[must_use]
pub fn oversized(size: usize) -> Answer {
    let message = format!(
        "without any body, the message has {size} bytes, but push services accept at most {MAX_PLAINTEXT}: \
         shorten its title or data"
    );
    Answer::refused(Reason::TooLarge, "too_large", message)
}
