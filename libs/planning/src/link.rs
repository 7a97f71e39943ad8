//! Checks rendered links: variables decide their value, so they can be checked only after rendering.

use domain::link::{is_icon, is_link};

use crate::template::TemplateError;

/// Refuses links that clients must not open.
pub(crate) fn check(icon: Option<&str>, url: Option<&str>) -> Result<(), TemplateError> {
    if !icon.is_none_or(is_icon) {
        return Err(TemplateError::Link("the icon"));
    }
    if !url.is_none_or(is_link) {
        return Err(TemplateError::Link("the url"));
    }
    Ok(())
}
