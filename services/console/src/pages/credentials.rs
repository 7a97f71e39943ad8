//! Credentials of an app: its API secret, its signing keys and the key of its links.

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use askama::Template;
use domain::SigningAlgorithm;
use operations::apps::keys;
use operations::{Conflict, Object, OperationError, Permission};
use secrecy::ExposeSecret as _;
use store::control::app::App;

use super::confirm::{Choice, Question, SecretPage, ask as ask_question};
use super::shell::Visit;
use crate::answer::{Answer, Refusal, page, see_other};
use crate::changes::Change;
use crate::console::Console;
use crate::route::segment;
use crate::text;

const SECRET_GRACE: Choice = Choice {
    name: "grace",
    label: "The previous secret stays valid for",
    options: &[
        ("24h", "a day"),
        ("10m", "10 minutes"),
        ("1h", "an hour"),
        ("7d", "7 days"),
        ("90d", "90 days"),
        ("0s", "no time: it ends now"),
    ],
};
const LINK_GRACE: Choice = Choice {
    name: "grace",
    label: "Links in earlier messages stay valid for",
    options: &[
        ("60d", "60 days"),
        ("30d", "30 days"),
        ("180d", "180 days"),
        ("400d", "400 days"),
        ("0s", "no time: they end now"),
    ],
};
const ALGORITHM: Choice = Choice {
    name: "algorithm",
    label: "Algorithm",
    options: &[
        ("RS256", "RS256: Tidings keeps the public key only"),
        ("ES256", "ES256: Tidings keeps the public key only"),
        ("HS256", "HS256: both sides have the same secret"),
    ],
};

/// A change of the credentials.
enum Step<'a> {
    Secret,
    LinkKey,
    NewKey,
    RevokeKey(&'a str),
}

#[derive(Template)]
#[template(path = "credentials.html")]
struct CredentialsPage {
    visit: Visit,
    app: App,
}

impl CredentialsPage {
    fn key_path(&self, kid: &str) -> String {
        self.visit.path(&format!("/credentials/signing-key/{}", segment(kid)))
    }
}

pub(crate) fn show(visit: Visit) -> Answer {
    let app = visit.app()?.clone();
    visit.operator.caller.may(Permission::View, app.id)?;
    page(StatusCode::OK, &CredentialsPage { visit, app })
}

impl<'a> Step<'a> {
    fn parse(below: &[&'a str]) -> Result<Step<'a>, Refusal> {
        Ok(match below {
            ["secret"] => Step::Secret,
            ["link-key"] => Step::LinkKey,
            ["signing-key"] => Step::NewKey,
            ["signing-key", kid] => Step::RevokeKey(kid),
            _ => return Err(Refusal::NotFound("There is no page at this address.")),
        })
    }

    fn question(&self, visit: &Visit) -> Result<Question, Refusal> {
        let app = visit.app()?;
        visit.operator.caller.may(Permission::ManageSecrets, app.id)?;
        let back = (visit.path("/credentials"), "Credentials");
        let asked = |title: &str, effect: &str, below: &str, button, choice, seen| Question {
            title: title.to_owned(),
            effect: effect.to_owned(),
            action: visit.path(&format!("/credentials/{below}")),
            back,
            button,
            is_danger: false,
            choice,
            seen,
            is_step_up: true,
        };
        Ok(match self {
            Step::Secret => asked(
                "Rotate the API secret?",
                "Calls of the backend with the previous secret are accepted for the time that you choose. Older secrets end now.",
                "secret",
                "Rotate and show the secret",
                Some(&SECRET_GRACE),
                keys::secret_version(app),
            ),
            Step::LinkKey => asked(
                "Rotate the key of links?",
                "New messages have links with the new key. Recipients must be able to unsubscribe for at least 30 days after an email; choose less only if the key or links have leaked.",
                "link-key",
                "Rotate the key",
                Some(&LINK_GRACE),
                app.id.to_string(),
            ),
            Step::NewKey => asked(
                "Create a signing key?",
                "The backend signs bearer tokens of users with it. Several keys are valid at once.",
                "signing-key",
                "Create and show the key",
                Some(&ALGORITHM),
                kids(app),
            ),
            Step::RevokeKey(kid) => {
                let is_known = app.signing_keys.iter().any(|key| key.kid == *kid);
                is_known.then_some(()).ok_or(OperationError::NotFound(Object::SigningKey))?;
                let below = format!("signing-key/{}", segment(kid));
                let effect =
                    "Tokens that it signed are refused within five seconds, and their live connections end.";
                let title = format!("Revoke the signing key {kid}?");
                let question = asked(&title, effect, &below, "Revoke the key", None, (*kid).to_owned());
                Question { is_danger: true, ..question }
            }
        })
    }
}

/// Returns a text that differs if the app has other signing keys.
fn kids(app: &App) -> String {
    let kids: Vec<&str> = app.signing_keys.iter().map(|key| key.kid.as_str()).collect();
    format!("keys:{}", kids.join(","))
}

pub(crate) async fn ask(console: &Console, visit: Visit, request: &HttpRequest, below: &[&str]) -> Answer {
    let question = Step::parse(below)?.question(&visit)?;
    ask_question(console, visit, request, &question).await
}

pub(crate) async fn change(change: Change<'_>, below: &[&str]) -> Answer {
    let step = Step::parse(below)?;
    let question = step.question(&change.visit)?;
    let change = match change.confirmed(&question).await? {
        Ok(change) => change,
        Err(answer) => return answer,
    };
    let (app, caller) = (change.visit.app()?, &change.visit.operator.caller);
    let (operations, seen) = (&change.console.operations, change.seen()?);
    match step {
        Step::Secret => {
            let grace = change.grace(&SECRET_GRACE)?;
            let secret = keys::rotate_seen_secret(operations, caller, app, grace, seen).await?;
            let facts = vec![("API key", app.api_key.clone())];
            let purpose = "The backend sends it with the API key. The previous one stays valid for the time that you chose.";
            let secret = ("API secret", secret.expose_secret().to_owned());
            show_secret(change.visit, "The API secret is rotated", purpose, facts, secret)
        }
        Step::LinkKey => {
            keys::rotate_link_key(operations, caller, app.id, change.grace(&LINK_GRACE)?).await?;
            Ok(see_other(change.visit.path("/credentials?done=link-key-rotated")))
        }
        Step::NewKey if seen != question.seen => Err(OperationError::Conflict(Conflict::Changed).into()),
        Step::NewKey => create_key(change).await,
        Step::RevokeKey(kid) => {
            keys::revoke_signing_key(operations, caller, app.id, kid).await?;
            Ok(see_other(change.visit.path("/credentials?done=key-revoked")))
        }
    }
}

async fn create_key(change: Change<'_>) -> Answer {
    let (app, caller) = (change.visit.app()?, &change.visit.operator.caller);
    let algorithm = change.chosen(&ALGORITHM)?.parse().unwrap_or(SigningAlgorithm::Rs256);
    let operations = &change.console.operations;
    let created = keys::create_signing_key(operations, caller, app.id, algorithm).await?;
    let mut facts = vec![("Key id", created.kid), ("Algorithm", algorithm.to_string())];
    let (purpose, name) = if let Some(public_key) = created.public_key {
        facts.push(("Public key", public_key));
        (
            "The backend signs bearer tokens with the private key, and names the key id in their header.",
            "Private key",
        )
    } else {
        (
            "The backend signs bearer tokens with the characters of the secret; do not decode them. The header of a token names the key id.",
            "Secret",
        )
    };
    let secret = (name, created.secret.expose_secret().trim_end().to_owned());
    show_secret(change.visit, "The signing key exists", purpose, facts, secret)
}

fn show_secret(
    visit: Visit,
    title: &str,
    purpose: &str,
    facts: Vec<(&'static str, String)>,
    (name, secret): (&'static str, String),
) -> Answer {
    let next = (visit.path("/credentials"), "Credentials");
    let (title, purpose) = (title.to_owned(), purpose.to_owned());
    page(StatusCode::OK, &SecretPage { visit, title, purpose, facts, name, secret, next })
}
