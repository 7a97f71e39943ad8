//! Answers to requests, and the refusals that are pages too.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use askama::Template;
use domain::Role;
use operations::{Object, OperationError};

use crate::kept_text::KeptText;
use crate::text::sentence;

/// Reason why a request gets no page.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The visitor has to sign in first.
    SignIn,
    /// There is no such page or object, or the operator may not know of it.
    NotFound(&'static str),
    /// The operator needs at least this role.
    Denied(Option<Role>),
    /// A value of the form is not valid. Contains the problems.
    Invalid(String),
    /// The state that the form was made for has changed. Contains a sentence for the operator.
    Stale(String),
    /// A form was sent from another site.
    ForeignForm,
    /// The trusted proxy names someone who is no operator.
    NoOperator(String),
    /// The page cannot be read now. Contains the cause, for the operator.
    Failed(String),
    /// A defect. Contains the cause, for the log only.
    Defect(String),
}

pub(crate) type Answer = Result<HttpResponse, Refusal>;

impl From<OperationError> for Refusal {
    fn from(error: OperationError) -> Refusal {
        match error {
            OperationError::NotFound(object) => Refusal::NotFound(missing(object)),
            OperationError::Denied(permission) => Refusal::Denied(permission.least_role()),
            OperationError::Conflict(conflict) => Refusal::Stale(sentence(&conflict.to_string())),
            OperationError::Invalid(problems) => Refusal::Invalid(domain::problem::joined(&problems)),
            OperationError::Quota(_) => Refusal::Stale(sentence(&error.to_string())),
            OperationError::Unavailable(error) => Refusal::Failed(format!("PostgreSQL: {error}")),
            OperationError::Later { message, cause } => Refusal::Failed(format!("{message} ({cause})")),
            error => Refusal::Defect(error.to_string()),
        }
    }
}

fn missing(object: Object) -> &'static str {
    match object {
        Object::App => "There is no such app, or you have no role in it.",
        Object::Redrive => "There is no such redrive in this app.",
        Object::Suppression => "This suppression does not exist, or was lifted already.",
        Object::Template => "There is no such template in this app.",
        Object::TemplateVersion => "The template has no such version.",
        Object::User => "There is no such person in this app.",
        Object::Operator => "There is no such operator, or it is disabled.",
        Object::Identity => "The operator is linked to no identity.",
        Object::Endpoint => "There is no such endpoint in this app.",
        Object::Category => "There is no such category in this app.",
        Object::Topic => "There is no such topic in this app.",
        Object::SigningKey => "There is no such signing key, or it is revoked already.",
        Object::Token => "There is no such token, or it has ended already.",
        Object::OperatorRole => "The operator does not have this role any more.",
        Object::Session => "This session has ended already.",
        Object::Request => {
            "There is no such send in this app. A send that was just accepted appears once it is planned."
        }
        _ => "It does not exist, or was removed.",
    }
}

/// Part of a page that was read, or the cause why it could not be.
pub(crate) type Part<T> = Result<T, String>;

/// Keeps a failure to read as part of the page. Refusals of the caller still refuse the whole page.
pub(crate) fn part<T>(read: Result<T, OperationError>) -> Result<Part<T>, Refusal> {
    match read {
        Ok(read) => Ok(Ok(read)),
        Err(error) => match Refusal::from(error) {
            Refusal::Failed(cause) => {
                tracing::warn!(cause, "cannot read a part of a page; showing the cause");
                Ok(Err(cause))
            }
            Refusal::Defect(cause) => {
                tracing::error!(cause, "a part of a page failed; showing a failure");
                Ok(Err("an internal error; the console's log has the cause".to_owned()))
            }
            refusal => Err(refusal),
        },
    }
}

/// Renders a page. Pages are never stored, because they contain personal data.
pub(crate) fn page(status: StatusCode, template: &impl Template) -> Answer {
    let text = template.render().map_err(|error| Refusal::Defect(format!("template: {error}")))?;
    let mut response = HttpResponse::build(status);
    response.insert_header((CONTENT_TYPE, "text/html; charset=utf-8"));
    response.insert_header((CACHE_CONTROL, "no-store"));
    if status == StatusCode::TOO_MANY_REQUESTS {
        response.insert_header((RETRY_AFTER, "60"));
    }
    Ok(response.body(text))
}

/// Policy of the content of an email: no scripts, no requests, and no origin.
const FRAME_POLICY: &str = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; \
     frame-ancestors 'self'";

/// Answers with the HTML of an email, for a frame of a page. Apps write it, and it may contain anything.
pub(crate) fn frame(html: &str) -> Answer {
    let mut response = HttpResponse::Ok();
    response.insert_header((CONTENT_TYPE, "text/html; charset=utf-8"));
    response.insert_header((CACHE_CONTROL, "no-store"));
    response.insert_header((CONTENT_SECURITY_POLICY, FRAME_POLICY));
    response.insert_header(("x-dns-prefetch-control", "off"));
    Ok(response.body(without_links(html)))
}

/// Disables `link` elements, because no policy stops a browser from connecting to the hosts that they name.
fn without_links(html: &str) -> String {
    let lower = html.to_ascii_lowercase();
    let mut text = String::with_capacity(html.len());
    let mut rest = html;
    for (at, _) in lower.match_indices("<link") {
        let done = html.len() - rest.len();
        let (before, after) = rest.split_at(at + 1 - done);
        text.push_str(before);
        text.push_str("no-");
        rest = after;
    }
    text + rest
}

/// Leads the browser to another page.
pub(crate) fn see_other(location: String) -> HttpResponse {
    let mut response = HttpResponse::SeeOther();
    response.insert_header((LOCATION, location)).insert_header((CACHE_CONTROL, "no-store")).finish()
}

/// Returns the path to which a browser goes after a form: `next` if it is a path of the console.
pub(crate) fn local(base: &str, next: &str) -> String {
    let home = format!("{base}/");
    let is_path = next.starts_with(&home) && !next.starts_with("//") && !next.contains(['\\', '\r', '\n']);
    let is_plain = next.bytes().all(|byte| (b'!'..=b'~').contains(&byte));
    if is_path && is_plain { next.to_owned() } else { home }
}

/// Page for a refusal.
#[derive(Template)]
#[template(path = "refusal.html")]
pub(crate) struct RefusalPage<'a> {
    pub(crate) base: &'a str,
    pub(crate) version: &'a str,
    pub(crate) number: u16,
    pub(crate) title: &'a str,
    pub(crate) text: &'a str,
    /// True if the same request may succeed later.
    pub(crate) retry: bool,
    /// Path of the sign-in, for an operator whose session has ended.
    pub(crate) sign_in: Option<String>,
    pub(crate) kept: Option<KeptText>,
}

const FOREIGN: &str = "The form was sent from another site, so nothing was changed. If the console runs behind a proxy, set \
     console.public_url to the address in your browser.";

impl Refusal {
    /// Returns status, title and text of the page of a refusal.
    pub(crate) fn described(self, path: &str) -> (StatusCode, &'static str, String) {
        match self {
            Refusal::SignIn => {
                (StatusCode::UNAUTHORIZED, "Your session has ended", "Nothing was changed.".to_owned())
            }
            Refusal::NotFound(text) => (StatusCode::NOT_FOUND, "Nothing here", text.to_owned()),
            Refusal::Denied(role) => {
                let text = match role {
                    Some(role) => {
                        format!(
                            "This page needs the role {role} or a higher one. An administrator can grant it."
                        )
                    }
                    None => "No role may see this page.".to_owned(),
                };
                (StatusCode::FORBIDDEN, "Not for your role", text)
            }
            Refusal::NoOperator(email) => {
                let text = format!(
                    "You are signed in as {email}, who is not an operator here. An administrator can run: \
                     tidings operator create {email}"
                );
                (StatusCode::FORBIDDEN, "Not an operator", text)
            }
            Refusal::Invalid(problems) => (StatusCode::BAD_REQUEST, "Not accepted", problems),
            Refusal::Stale(text) => (StatusCode::CONFLICT, "Nothing was changed", text),
            Refusal::ForeignForm => (StatusCode::FORBIDDEN, "Form refused", FOREIGN.to_owned()),
            Refusal::Failed(cause) => {
                tracing::warn!(cause, path, "cannot read a page");
                let text = format!("The console could not read what this page shows. {cause}");
                (StatusCode::SERVICE_UNAVAILABLE, "Not readable now", text)
            }
            Refusal::Defect(cause) => {
                tracing::error!(cause, path, "a page failed");
                let text = "An internal error. The log of the console has the cause.".to_owned();
                (StatusCode::INTERNAL_SERVER_ERROR, "Something broke", text)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_connects_to_no_host() {
        let html = "<LINK rel=preconnect href=https://a.example><link rel=stylesheet><p>é</p>";
        assert_eq!(
            without_links(html),
            "<no-LINK rel=preconnect href=https://a.example><no-link rel=stylesheet><p>é</p>"
        );
    }

    #[test]
    fn many_links_in_any_case_are_disabled() {
        let many = 100_000;
        let html = "É<LiNk><<link/>link".repeat(many);
        assert_eq!(without_links(&html), "É<no-LiNk><<no-link/>link".repeat(many));
        for unchanged in ["", "<", "<lin", "<p>link</p>", "< link"] {
            assert_eq!(without_links(unchanged), unchanged);
        }
    }
}
