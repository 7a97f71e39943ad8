//! Identity that the credentials of a request prove.

use std::sync::Arc;

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use actix_web::http::header::HeaderMap;
use domain::Timestamp;
use domain::fields::check_identifier;
use fairness::principal::Principal;
use store::control::app::App;
use web::admission::{Admission, RequestApp};
use web::deprecation;
use web::failure::{Failure, valid_or_problems};
use web::headers::Credential;
use web::peer;
use web::query::Query;

use crate::access::Access;
use crate::access::known_app::{Evidence, KnownApp};
use crate::access::signature;
use crate::access::token::Token;

/// An app, and the verified identity of its caller. All credentials of the request are valid.
pub(crate) struct Identity<'a> {
    request: &'a HttpRequest,
    headers: &'a HeaderMap,
    known: Arc<KnownApp>,
    pub(crate) by_app: bool,
    /// The strongest evidence that was sent. A signature counts only if the app requires it.
    pub(crate) evidence: Evidence,
    /// The user of the bearer token, if one was sent.
    token_user: Option<String>,
    expires_at: Option<Timestamp>,
    /// The user in the header, if one was sent.
    header_user: Option<&'a str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Demand {
    Secret,
    /// The API secret, or the proof that the app requires of its users.
    UserProof,
}

impl<'a> Identity<'a> {
    /// Verifies every credential of a request and the required proof, and counts the request against the rate limits of its
    /// caller. 401 if a credential is wrong or missing, or if two credentials contradict each other; 429 if a rate limit is
    /// exceeded.
    pub(crate) async fn prove(request: &'a HttpRequest, demand: Demand) -> Result<Identity<'a>, Failure> {
        Identity::prove_with(request, request.headers(), demand).await
    }

    /// Like [`prove`](Self::prove), but reads the credentials from `headers`. Callers that cannot set headers send their
    /// credentials in the query or in a message.
    pub(crate) async fn prove_with(
        request: &'a HttpRequest,
        headers: &'a HeaderMap,
        demand: Demand,
    ) -> Result<Identity<'a>, Failure> {
        let (access, admission) = (Access::of(request)?, Admission::of(request)?);
        let proven = Identity::verify(request, headers, access, admission).await.and_then(|mut identity| {
            let principal = identity.demand(demand)?;
            Ok((identity, principal))
        });
        match proven {
            Ok((identity, principal)) => {
                admission.admit(request, principal, &identity.known.app).await?;
                identity.demand_origin()?;
                Ok(identity)
            }
            Err(failure) => Err(admission.refuse(request, failure).await),
        }
    }

    async fn verify(
        request: &'a HttpRequest,
        headers: &'a HeaderMap,
        access: &Access,
        admission: &Admission,
    ) -> Result<Identity<'a>, Failure> {
        let names = &access.header_names;
        let token = Token::sent_in(headers)?;
        let token_key = token.as_ref().map(Token::unverified_api_key).transpose()?;
        let api_key = agreed_value("API key", names.read(headers, Credential::ApiKey)?, token_key)?;
        let secret = names.read(headers, Credential::ApiSecret)?;
        let header_user = names.read(headers, Credential::UserId)?;
        let api_key = api_key.ok_or_else(no_credentials)?;
        let known = access.apps.by_key(api_key, peer::of_request(request), &admission.limits).await?;
        if let Some(known) = &known {
            RequestApp::note(request, known.app.clone());
        }
        let wrong = || Failure::unauthorized("invalid_credentials", "the API key or the API secret is wrong");
        let known = known.ok_or_else(wrong)?;
        let by_secret = match secret {
            Some(secret) => Some(known.evidence_of_secret(secret).ok_or_else(wrong)?),
            None => None,
        };
        let expires_at = token.as_ref().and_then(Token::expires_at);
        let (token_user, by_token) =
            token.map(|token| token.verify(&known, access.token_lifetime)).transpose()?.unzip();
        agreed_value("user", header_user, token_user.as_deref())?;
        let by_app = by_secret.is_some();
        let evidence = by_secret.or(by_token).unwrap_or(Evidence::PublicKey);
        Ok(Identity { request, headers, known, by_app, evidence, token_user, expires_at, header_user })
    }

    /// Demands a proof, and returns the [`Principal`] against whose limits the request counts. 401 if the caller lacks the proof.
    fn demand(&mut self, demand: Demand) -> Result<Principal, Failure> {
        let app = self.known.app.id;
        if self.by_app {
            return Ok(Principal::backend(app));
        }
        if demand == Demand::Secret {
            let message = "this call needs the API secret in addition to the API key";
            return Err(Failure::unauthorized("secret_required", message));
        }
        if let Some(user) = &self.token_user {
            return Ok(Principal::user(app, user));
        }
        let (user, evidence) = self.user_evidence()?;
        self.evidence = evidence;
        Ok(if self.evidence == Evidence::PublicKey {
            Principal::claimed_user(app, user, peer::of_request(self.request))
        } else {
            Principal::user(app, user)
        })
    }

    /// Checks that the app allows the origin of the calling page. 403 if it does not.
    fn demand_origin(&self) -> Result<(), Failure> {
        if self.by_app || RequestApp::admits_origin(self.request) {
            return Ok(());
        }
        let message =
            "the app does not list the origin of this page; add it with tidings app set cors-origins=";
        Err(Failure::refused(StatusCode::FORBIDDEN, "origin_not_allowed", message))
    }

    /// Returns the app; 403 if the app is disabled. Call it after the credentials are verified, so that only the app's own
    /// callers learn that it is disabled.
    pub(crate) fn app(&self) -> Result<Arc<App>, Failure> {
        if self.known.app.settings.disabled {
            return Err(Failure::refused(StatusCode::FORBIDDEN, "app_disabled", "the app is disabled"));
        }
        Ok(self.known.app.clone())
    }

    /// Returns the time at which the bearer token expires; None if no token was sent, or if it does not expire.
    pub(crate) fn expires_at(&self) -> Option<Timestamp> {
        self.expires_at
    }

    /// Returns the user of a caller without a token, and the evidence that the app requires of its users.
    fn user_evidence(&self) -> Result<(&'a str, Evidence), Failure> {
        let KnownApp { app, .. } = &*self.known;
        if app.settings.secure_mode {
            let message =
                "the app is in secure mode: this call needs a bearer token that the app signed for the user";
            return Err(Failure::unauthorized("token_required", message));
        }
        let user = self.header_user.ok_or_else(user_required)?;
        if !app.settings.hmac {
            return Ok((user, Evidence::PublicKey));
        }
        let names = &Access::of(self.request)?.header_names;
        let sent = names.read(self.headers, Credential::UserSignature)?;
        if sent.is_some() {
            deprecation::note(self.request);
        }
        Ok((user, signature::check(&self.known, user, sent)?))
    }

    /// Returns the user that the request is about. The parameter `userIdentifier` counts only if the API secret was sent.
    pub(crate) fn user(&self) -> Result<Option<String>, Failure> {
        let mut problems = Vec::new();
        let in_query =
            if self.by_app { Query::of(self.request).text("userIdentifier", &mut problems) } else { None };
        agreed_value("user", in_query.as_deref(), self.token_user.as_deref())?;
        if in_query.is_some() && self.header_user.is_some_and(|user| in_query.as_deref() != Some(user)) {
            let message = "userIdentifier and the user id header must name the same user";
            return Err(Failure::problem("userIdentifier", "conflict", message));
        }
        let user = self.token_user.clone().or(self.header_user.map(str::to_owned)).or(in_query);
        let user = user.map(|user| check_identifier("the user id", user, &mut problems));
        valid_or_problems(Some(user.flatten()), problems)
    }
}

/// Returns the value from the bearer token (`in_token`) or from elsewhere in the request (`sent`), whichever exists. 401 if both
/// exist and differ.
fn agreed_value<'a>(
    what: &str,
    sent: Option<&'a str>,
    in_token: Option<&'a str>,
) -> Result<Option<&'a str>, Failure> {
    match (sent, in_token) {
        (Some(sent), Some(in_token)) if sent != in_token => {
            let message = format!("the request names a different {what} than its bearer token");
            Err(Failure::unauthorized("conflicting_credentials", message))
        }
        (sent, in_token) => Ok(sent.or(in_token)),
    }
}

fn no_credentials() -> Failure {
    let message = "the request has no credentials, or not a usable combination of them";
    Failure::unauthorized("no_credentials", message)
}

/// Creates the 401 for a call that needs a user but names none.
pub(crate) fn user_required() -> Failure {
    Failure::unauthorized("user_required", "this call needs a user id in addition to the API key")
}
