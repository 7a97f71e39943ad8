//! The link by which the reader of an email turns its category off (RFC 8058).

use domain::{AppId, CategoryId, UserNumber};

use crate::Context;
use crate::link::{Link, LinkError, Purpose};

/// Path of the endpoint; the token follows.
pub const PATH: &str = "/v3/unsubscribe/";

/// The link that turns `category` off for the user's email, by one POST or by a page for people. None where nobody is
/// told how to reach the API from outside (`gateway.public_url`).
///
/// # Errors
/// The app's key cannot be had now.
pub async fn url(
    context: &Context,
    app: AppId,
    user: UserNumber,
    category: CategoryId,
) -> Result<Option<String>, LinkError> {
    let Some(public_url) = &context.config.gateway.public_url else {
        return Ok(None);
    };
    let token = context.links.sign(&Link { app, user, purpose: Purpose::Unsubscribe(category) }).await?;
    Ok(Some(format!("{}{PATH}{token}", public_url.expose().trim_end_matches('/'))))
}
