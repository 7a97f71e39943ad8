//! The link by which a browser reports that its user opened a notification. A service worker has no credentials, so the link
//! itself identifies the user and the send.

use domain::{AppId, SendId, UserNumber};

use crate::link::{Link, LinkError, Links, Purpose};

/// Path of the endpoint, up to the token.
pub const PATH: &str = "/v3/push/click/";

/// Builds a link for one POST, which marks the item of `send` in the user's inbox as read. Returns None if `public_url` (the
/// setting `gateway.public_url`) is not set.
///
/// # Errors
/// Returns an error if the app's key cannot be read.
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
