//! Checks rendered links: variables decide their value, so they can be checked only after rendering.

use domain::link::{is_icon, is_link};

/// Refuses links that clients must not open. The error names the link.
pub(crate) fn check(icon: Option<&str>, url: Option<&str>) -> Result<(), &'static str> {
    if !icon.is_none_or(is_icon) {
        return Err("the icon");
    }
    if !url.is_none_or(is_link) {
        return Err("the url");
    }
    Ok(())
}
