use domain::{AppId, CategoryId, UserNumber};

use crate::link::{Link, LinkError, Links, Purpose};

pub const PATH: &str = "/v3/unsubscribe/";

/// Builds the link with which the user turns `category` off for email (RFC 8058), by a POST of the mail client or on a web page. None if
/// `gateway.public_url` is not set.
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
