//! Signing in and out.

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderValue, SET_COOKIE};
use askama::Template;
use operations::operators::{PASSWORD_LENGTH, SignInError};
use secrecy::SecretString;

use crate::answer::{Answer, Refusal, local, page, see_other};
use crate::client::client;
use crate::console::Console;
use crate::query::Pairs;

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage<'a> {
    base: &'a str,
    version: &'a str,
    next: &'a str,
    email: &'a str,
    /// True if an OpenID provider signs operators in.
    has_provider: bool,
    passwords: bool,
    problem: Option<String>,
}

#[derive(Template)]
#[template(path = "welcome.html")]
struct WelcomePage<'a> {
    base: &'a str,
    version: &'a str,
    code: &'a str,
    /// Operator of the link; None if it creates the first one.
    owner: Option<&'a str>,
    email: &'a str,
    asks_password: bool,
    least: usize,
    problem: Option<String>,
}

pub(crate) fn ask(console: &Console, query: &Pairs) -> Answer {
    let next = query.text("next").unwrap_or_default();
    show(console, StatusCode::OK, next, "", None)
}

pub(crate) fn show(
    console: &Console,
    status: StatusCode,
    next: &str,
    email: &str,
    problem: Option<String>,
) -> Answer {
    let (base, version) = (console.base.as_str(), console.files.version.as_str());
    let (has_provider, passwords) = (console.oidc.is_some(), console.sign_ins.uses_passwords());
    page(status, &SignInPage { base, version, next, email, has_provider, passwords, problem })
}

pub(crate) async fn sign_in(console: &Console, request: &HttpRequest, form: &Pairs) -> Answer {
    let email = form.text("email").unwrap_or_default();
    let password = SecretString::from(form.raw("password").unwrap_or_default());
    let next = form.text("next").unwrap_or_default();
    let client = client(console, request);
    match console.sign_ins.sign_in(email, password, &client).await {
        Ok(token) => Ok(signed_in(console, request, &token, next)),
        Err(error) => {
            let (status, problem) = described(error)?;
            show(console, status, next, email, Some(problem))
        }
    }
}

pub(crate) fn signed_in(
    console: &Console,
    request: &HttpRequest,
    token: &str,
    next: &str,
) -> actix_web::HttpResponse {
    let mut response = see_other(local(&console.base, next));
    if let Ok(cookie) = HeaderValue::from_str(&console.cookies(request).begin(token)) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// Returns status and text for an operator; anything else is a refusal.
pub(crate) fn described(error: SignInError) -> Result<(StatusCode, String), Refusal> {
    let status = match error {
        SignInError::TooMany => StatusCode::TOO_MANY_REQUESTS,
        SignInError::Invalid(_) => StatusCode::BAD_REQUEST,
        SignInError::Failed(error) => return Err(error.into()),
        _ => StatusCode::FORBIDDEN,
    };
    Ok((status, error.to_string()))
}

pub(crate) async fn welcome(console: &Console, query: &Pairs) -> Answer {
    show_welcome(console, query, StatusCode::OK, None).await
}

async fn show_welcome(
    console: &Console,
    pairs: &Pairs,
    status: StatusCode,
    problem: Option<String>,
) -> Answer {
    const SPENT: &str = "This link has been used or has expired. `tidings operator link EMAIL` prints a new one; while there is no \
         operator, restart the console.";
    let code = pairs.text("code").unwrap_or_default();
    let purpose = console.sign_ins.purpose(code).await?.ok_or(Refusal::NotFound(SPENT))?;
    page(
        status,
        &WelcomePage {
            base: &console.base,
            version: &console.files.version,
            code,
            owner: purpose.email.as_deref(),
            email: pairs.text("email").unwrap_or_default(),
            asks_password: !purpose.signs_in && console.sign_ins.uses_passwords(),
            least: PASSWORD_LENGTH.0,
            problem,
        },
    )
}

pub(crate) async fn redeem(console: &Console, request: &HttpRequest, form: &Pairs) -> Answer {
    let code = form.text("code").unwrap_or_default();
    let password = form.raw("password").filter(|password| !password.is_empty()).map(SecretString::from);
    let client = client(console, request);
    match console.sign_ins.redeem(code, form.text("email"), password.as_ref(), &client).await {
        Ok(token) => Ok(signed_in(console, request, &token, "")),
        Err(error) => {
            let (status, problem) = described(error)?;
            show_welcome(console, form, status, Some(problem)).await
        }
    }
}

pub(crate) async fn sign_out(console: &Console, request: &HttpRequest) -> Answer {
    let cookies = console.cookies(request);
    if let Some(token) = cookies.token() {
        console.sign_ins.sign_out(&token).await?;
    }
    let mut response = see_other(format!("{}/sign-in", console.base));
    if let Ok(cookie) = HeaderValue::from_str(&cookies.end()) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::local;

    #[test]
    fn signing_in_leads_to_pages_of_the_console_only() {
        assert_eq!(local("", "/apps/shop?q=a%20b"), "/apps/shop?q=a%20b");
        assert_eq!(local("/console", "/console/apps"), "/console/apps");
        for elsewhere in ["", "//evil.example.com", "https://evil.example.com", "/\\evil", "/a\r\nb: c", "/ü"]
        {
            assert_eq!(local("", elsewhere), "/", "{elsewhere}");
        }
        assert_eq!(local("/console", "/apps"), "/console/");
    }
}
