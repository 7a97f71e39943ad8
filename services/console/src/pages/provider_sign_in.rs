//! Signing in by an OpenID provider.

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderValue, SET_COOKIE};
use operations::operators::SignInError;
use service_kit::clock;

use super::sign_in::{described, show, signed_in};
use crate::answer::{Answer, Refusal, see_other};
use crate::client::client;
use crate::console::Console;
use crate::oidc::{FLOW_LIFETIME, Flow, Oidc, OidcError};
use crate::query::Pairs;
use crate::session;

fn configured(console: &Console) -> Result<&Oidc, Refusal> {
    const NO_PROVIDER: Refusal = Refusal::NotFound("No identity provider is configured here.");
    console.oidc.as_ref().ok_or(NO_PROVIDER)
}

/// Leads the browser to the provider. If another site sent it here, it shows the page with the button instead: pictures in that site could
/// otherwise use up the tries of their visitor.
pub(crate) async fn depart(console: &Console, request: &HttpRequest, query: &Pairs) -> Answer {
    let oidc = configured(console)?;
    let next = query.text("next").unwrap_or_default();
    if session::is_of_other_site(request) {
        return show(console, StatusCode::OK, next, "", None);
    }
    if let Err(error) = console.sign_ins.admit(&client(console, request)) {
        return refused(console, next, error);
    }
    match oidc.depart(next, query.text("fresh").is_some()).await {
        Ok(departure) => {
            let mut response = see_other(departure.location);
            let lifetime = FLOW_LIFETIME.as_secs();
            let cookie = console.cookies(request).set_flow(&departure.cookie, lifetime);
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                response.headers_mut().insert(SET_COOKIE, cookie);
            }
            Ok(response)
        }
        Err(error) => failed(console, next, &error),
    }
}

/// Receives the browser from the provider. The cookie of the sign-in is used up.
pub(crate) async fn arrive(console: &Console, request: &HttpRequest, query: &Pairs) -> Answer {
    let oidc = configured(console)?;
    let mut response = finish(console, oidc, request, query).await?;
    if let Ok(cookie) = HeaderValue::from_str(&console.cookies(request).set_flow("", 0)) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    Ok(response)
}

async fn finish(console: &Console, oidc: &Oidc, request: &HttpRequest, query: &Pairs) -> Answer {
    let cookie = console.cookies(request).flow();
    // An answer that this browser did not ask for is no try, because other sites can send it.
    let flow = match Flow::of_answer(cookie.as_deref(), query) {
        Ok(flow) => flow,
        Err(error) => return failed(console, "", &error),
    };
    let client = client(console, request);
    if let Err(error) = console.sign_ins.admit(&client) {
        return refused(console, "", error);
    }
    let arrival = match oidc.arrive(flow, query, clock::now()).await {
        Ok(arrival) => arrival,
        Err(error) => return failed(console, "", &error),
    };
    match console.sign_ins.sign_person_in(&arrival.person, &oidc.policy, &client).await {
        Ok(token) => Ok(signed_in(console, request, &token, &arrival.next)),
        Err(error) => refused(console, &arrival.next, error),
    }
}

fn refused(console: &Console, next: &str, error: SignInError) -> Answer {
    let (status, problem) = described(error)?;
    show(console, status, next, "", Some(problem))
}

fn failed(console: &Console, next: &str, error: &OidcError) -> Answer {
    // Strangers can cause this error as often as they like.
    if !matches!(error, OidcError::Unstarted) {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        tracing::warn!(%error, cause, "an OpenID provider did not sign an operator in; the operator may try again");
    }
    let status = match error {
        OidcError::Unstarted | OidcError::OtherIssuer => StatusCode::BAD_REQUEST,
        OidcError::Refused(_) | OidcError::NotFresh => StatusCode::FORBIDDEN,
        _ => StatusCode::BAD_GATEWAY,
    };
    show(console, status, next, "", Some(error.to_string()))
}
