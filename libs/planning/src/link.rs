//! Links that come out of a template: what variables make of them is known only then.

use domain::link::{is_icon, is_link};

use crate::template::TemplateError;

/// Refuses what clients must not open.
pub(crate) fn check(icon: Option<&str>, url: Option<&str>) -> Result<(), TemplateError> {
    if !icon.is_none_or(is_icon) {
        return Err(TemplateError::Link("the icon"));
    }
    if !url.is_none_or(is_link) {
        return Err(TemplateError::Link("the url"));
    }
    Ok(())
}
