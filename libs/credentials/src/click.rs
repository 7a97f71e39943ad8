//! The link by which a browser reports that its user opened a notification. A service worker has no credentials, so the link itself
//! identifies the user and the send.

use domain::{AppId, SendId, UserNumber};

use crate::link::{Link, LinkError, Links, Purpose};

pub const PATH: &str = "/v3/push/click/";

/// Builds a link for one POST, which marks the item of `send` as read. None if `gateway.public_url` is not set.
pub async fn url(
    links: &Links,
    public_url: Option<&str>,
    app: AppId,
    user: UserNumber,
    send: SendId,
) -> Result<Option<String>, LinkError> {
    let Some(public_url) = public_url else {
        return Ok(None);
    };
    let token = links.sign(&Link { app, user, purpose: Purpose::Click(send) }).await?;
    Ok(Some(format!("{}{PATH}{token}", public_url.trim_end_matches('/'))))
}
