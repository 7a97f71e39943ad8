//! Credentials of live connections. Browsers cannot set headers for `EventSource` and WebSocket, so the query may contain them.

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use actix_web::{HttpMessage, HttpRequest};
use fairness::principal::Principal;
use operations::Caller;
use web::failure::{Failure, valid_or_problems};
use web::headers::Credential;
use web::peer;
use web::query::Query;

use crate::access::Access;
use crate::access::caller::of_user;
use crate::access::identity::{Demand, Identity};
use crate::realtime::connection::{Client, Transport};

/// Names under which clients might send a token in the query, where proxies would log it.
const TOKENS: [&str; 3] = ["token", "access_token", "authorization"];

/// Verifies the credentials in `headers`. Returns the client, the principal of its share of the connections, and the caller that acts
/// for its user.
pub(super) async fn caller(
    request: &HttpRequest,
    headers: &HeaderMap,
    transport: Transport,
) -> Result<(Client, Principal, Caller), Failure> {
    let identity = Identity::prove_with(request, headers, Demand::UserProof).await?;
    let app = identity.app()?;
    let caller = of_user(request, &identity, &app)?;
    let peer = peer::of_request(request);
    let evidence = identity.evidence.clone();
    let expires_at = identity.expires_at();
    let most_of_app = app.settings.realtime_connections.and_then(|most| usize::try_from(most.get()).ok());
    let api_key = app.api_key.clone();
    let client = Client { app: app.id, api_key, peer, evidence, expires_at, transport, most_of_app };
    let principal = request.extensions().get::<Principal>().copied();
    Ok((client, principal.unwrap_or_else(|| Principal::stranger(peer)), caller))
}

/// Returns the headers of a request, completed by the credentials in its query. 400 if the query contains a token.
pub(super) fn with_query(
    request: &HttpRequest,
    access: &Access,
    query: &Query,
) -> Result<HeaderMap, Failure> {
    let mut problems = Vec::new();
    for name in TOKENS {
        if query.text(name, &mut problems).is_some() {
            let message =
                "a token must not be sent in the URL, because proxies log it; send the header Authorization";
            return Err(Failure::problem(name, "token_in_url", message));
        }
    }
    let mut headers = request.headers().clone();
    for (name, credential) in [("apiKey", Credential::ApiKey), ("userId", Credential::UserId)] {
        let Some(value) = query.text(name, &mut problems) else { continue };
        let (name, value) = header(access, name, credential, &value)?;
        // If the header was sent too, both must agree.
        headers.append(name, value);
    }
    valid_or_problems(Some(headers), problems)
}

/// Returns the header that corresponds to a credential in the query.
pub(super) fn header(
    access: &Access,
    parameter: &str,
    credential: Credential,
    value: &str,
) -> Result<(HeaderName, HeaderValue), Failure> {
    let name = access.header_names.name(credential).parse::<HeaderName>();
    let name = name.map_err(|error| Failure::Defect(error.to_string()))?;
    let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| {
        Failure::unauthorized("malformed_credentials", format!("{parameter} contains control characters"))
    })?;
    Ok((name, value))
}
