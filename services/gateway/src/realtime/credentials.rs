//! Credentials of live connections. Browsers cannot set headers for `EventSource` and WebSocket, so the query may contain them.

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use actix_web::{HttpMessage, HttpRequest};

use crate::access::identity::{Demand, Identity, user_required};
use crate::gateway::Gateway;
use crate::http::failure::{Failure, valid_or_problems};
use crate::http::headers::Credential;
use crate::http::query::Query;
use crate::http::shares::holder::Holder;
use crate::http::shares::peer::Peer;
use crate::realtime::connection::{Client, Transport};

/// Names under which clients might send a token in the query, where proxies would log it.
const TOKENS: [&str; 3] = ["token", "access_token", "authorization"];

/// Verifies the credentials in `headers`. Returns the client, the holder of its share of the connections, and its user.
pub(super) async fn caller(
    request: &HttpRequest,
    headers: &HeaderMap,
    transport: Transport,
) -> Result<(Client, Holder, String), Failure> {
    let identity = Identity::prove_with(request, headers, Demand::UserProof).await?;
    let app = identity.app()?;
    let user = identity.user()?.ok_or_else(user_required)?;
    let peer = Peer::of_request(request);
    let evidence = identity.evidence.clone();
    let expires_at = identity.expires_at();
    let most_of_app = app.realtime_connections.and_then(|most| usize::try_from(most).ok());
    let api_key = app.api_key.clone();
    let client = Client { app: app.id, api_key, peer, evidence, expires_at, transport, most_of_app };
    let holder = request.extensions().get::<Holder>().copied();
    Ok((client, holder.unwrap_or_else(|| Holder::stranger(peer)), user))
}

/// Returns the headers of a request, completed by the credentials in its query. 400 if the query contains a token.
pub(super) fn with_query(
    request: &HttpRequest,
    gateway: &Gateway,
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
        let (name, value) = header(gateway, name, credential, &value)?;
        // If the header was sent too, both must agree.
        headers.append(name, value);
    }
    valid_or_problems(Some(headers), problems)
}

/// Returns the header that corresponds to a credential in the query.
pub(super) fn header(
    gateway: &Gateway,
    parameter: &str,
    credential: Credential,
    value: &str,
) -> Result<(HeaderName, HeaderValue), Failure> {
    let name = gateway.header_names.name(credential).parse::<HeaderName>();
    let name = name.map_err(|error| Failure::Defect(error.to_string()))?;
    let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| {
        Failure::unauthorized("malformed_credentials", format!("{parameter} contains control characters"))
    })?;
    Ok((name, value))
}
