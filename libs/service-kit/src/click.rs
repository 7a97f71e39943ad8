//! The link by which a browser tells that its user opened a notification. A service worker has no credentials, so the
//! link says by itself whose notification it is.

use domain::{AppId, SendId, UserNumber};

use crate::Context;
use crate::link::{Link, LinkError, Purpose};

/// Path of the endpoint; the token follows.
pub const PATH: &str = "/v3/push/click/";

/// The link that marks what `send` has put into the user's inbox as read, by one POST. None where nobody is told how to
/// reach the API from outside (`gateway.public_url`).
///
/// # Errors
/// The app's key cannot be had now.
pub async fn url(
    context: &Context,
    app: AppId,
    user: UserNumber,
    send: SendId,
) -> Result<Option<String>, LinkError> {
    let Some(public_url) = &context.config.gateway.public_url else {
        return Ok(None);
    };
    let token = context.links.sign(&Link { app, user, purpose: Purpose::Click(send) }).await?;
    Ok(Some(format!("{}{PATH}{token}", public_url.expose().trim_end_matches('/'))))
}
