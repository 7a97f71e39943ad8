//! The link by which the recipient of an email turns off the category of the email (RFC 8058).

use domain::{AppId, CategoryId, UserNumber};

use crate::link::{Link, LinkError, Links, Purpose};

/// Path of the endpoint, up to the token.
pub const PATH: &str = "/v3/unsubscribe/";

/// Builds the link with which the user turns `category` off for email: a mail client can send a POST to it, and a browser shows a
/// web page. Returns None if `public_url` (the setting `gateway.public_url`) is not set.
///
/// # Errors
/// Returns an error if the app's key cannot be read.
pub async fn url(
    links: &Links,
    public_url: Option<&str>,
    app: AppId,
    user: UserNumber,
    category: CategoryId,
) -> Result<Option<String>, LinkError> {
    let Some(public_url) = public_url else {
        return Ok(None);
    };
    let token = links.sign(&Link { app, user, purpose: Purpose::Unsubscribe(category) }).await?;
    Ok(Some(format!("{}{PATH}{token}", public_url.trim_end_matches('/'))))
}
