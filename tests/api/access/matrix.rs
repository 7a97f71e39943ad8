//! Access to the API with every combination of an app's switches, the kind of caller, and valid, wrong or missing credentials.

mod tokens;

use std::num::NonZeroU32;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use domain::app_setting::AppSetting;
use domain::{Actor, SigningAlgorithm};
use serde_json::{Value, json};

use crate::service::{App, Backing, Service};
use crate::signer::{Signer, claims, hex, seconds, signature, with};

/// The switches of the called app.
#[derive(Clone, Copy, Debug)]
struct Switches {
    secure_mode: bool,
    hmac: bool,
    require_exp: bool,
}

/// The kind of caller that may make a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    User,
    App,
}

const CALLS: [(Mode, &str); 3] = [
    (Mode::User, "GET /v3/notifications"),
    (Mode::User, "POST /v3/sdk/connect"),
    (Mode::App, "PUT /v3/users/zoe"),
];

/// The proof of identity that a case's credentials provide.
#[derive(Clone, Copy, Debug)]
enum Proof {
    /// No proof, because a credential is wrong. Holds the expected error code.
    Wrong(&'static str),
    /// A public key alone.
    Key,
    /// A user and the public key. Holds the error code that is expected if the app requires a signature.
    Unsigned(&'static str),
    /// A user with a valid signature.
    Signed,
    Token,
    /// A valid token without expiry.
    EndlessToken,
    /// The secret.
    Secret,
    /// The secret, and a user.
    SecretForUser,
}

impl Proof {
    /// Returns the error code if the call is refused, or None if it is admitted.
    fn refusal(self, mode: Mode, switches: Switches) -> Option<&'static str> {
        match (self, mode) {
            (Proof::Wrong(code), _) => Some(code),
            (Proof::EndlessToken, _) if switches.require_exp => Some("invalid_token"),
            (Proof::SecretForUser, _) | (Proof::Secret, Mode::App) => None,
            (Proof::Secret, Mode::User) => Some("user_required"),
            (_, Mode::App) => Some("secret_required"),
            (Proof::Token | Proof::EndlessToken, Mode::User) => None,
            (_, Mode::User) if switches.secure_mode => Some("token_required"),
            (Proof::Key, Mode::User) => Some("user_required"),
            (Proof::Unsigned(code), Mode::User) => switches.hmac.then_some(code),
            (Proof::Signed, Mode::User) => None,
        }
    }
}

/// Name of the case, headers without their prefix, and the proof that they provide.
type Case = (&'static str, Vec<(&'static str, String)>, Proof);

/// The called app, its keys, and another app.
struct World {
    app: App,
    rs: Signer,
    es: Signer,
    hs: Signer,
    revoked: Signer,
    bank: App,
    bank_key: Signer,
}

impl World {
    async fn create(service: &Service, switches: Switches) -> World {
        let name = format!("{switches:?}");
        let (app, bank) = (service.app(&name).await, service.app(&format!("not {name}")).await);
        let Switches { secure_mode, hmac, require_exp } = switches;
        let set = [
            AppSetting::SecureMode(secure_mode),
            AppSetting::Hmac(hmac),
            AppSetting::RequireExp(require_exp),
            AppSetting::RateLimit(NonZeroU32::new(1_000_000)),
        ];
        assert!(service.context.store.control().set_settings(app.id, &set, &Actor::System).await.unwrap());
        // Signatures need a secret that was created after the switch `hmac` was set, so rotate the secret.
        let app = service.rotate(&app, &format!("signing secret of {name}"), Duration::ZERO).await;
        let rs = Signer::create(service, &app, SigningAlgorithm::Rs256).await;
        let es = Signer::create(service, &app, SigningAlgorithm::Es256).await;
        let hs = Signer::create(service, &app, SigningAlgorithm::Hs256).await;
        let revoked = Signer::create(service, &app, SigningAlgorithm::Es256).await;
        assert!(
            service
                .context
                .store
                .control()
                .revoke_signing_key(app.id, &revoked.kid, &Actor::System)
                .await
                .unwrap()
        );
        let bank_key = Signer::create(service, &bank, SigningAlgorithm::Es256).await;
        World { app, rs, es, hs, revoked, bank, bank_key }
    }

    fn cases(&self) -> Vec<Case> {
        let tokens = [self.good_tokens(), self.bad_tokens(), self.foreign_tokens(), self.swapped_tokens()];
        let tokens = tokens.into_iter().flatten().flat_map(|(name, token, proof)| {
            // A token together with the key and the user gives the same access as the token alone.
            let alone = vec![bearer(&token)];
            let full = [alone.clone(), vec![self.key(), user("ada")]].concat();
            [(name, alone, proof), (name, full, proof)]
        });
        [self.plain(), self.signed(), self.combined(), tokens.collect()].concat()
    }

    fn key(&self) -> (&'static str, String) {
        ("API-KEY", self.app.key.clone())
    }

    fn secret(&self) -> (&'static str, String) {
        ("API-SECRET", self.app.secret.clone())
    }

    fn claims(&self) -> Value {
        claims(&self.app, "ada")
    }

    /// Cases without token or signature.
    fn plain(&self) -> Vec<Case> {
        let (key, ada, secret) = (self.key(), user("ada"), self.secret());
        let wrong = || ("API-SECRET", "wrong".to_owned());
        let (none, invalid) = (Proof::Wrong("no_credentials"), Proof::Wrong("invalid_credentials"));
        let unsigned = Proof::Unsigned("signature_required");
        let basic = ("Authorization", "Basic YWRhOmFkYQ==".to_owned());
        vec![
            ("nothing", vec![], none),
            ("a user", vec![ada.clone()], none),
            ("a secret", vec![secret.clone()], none),
            ("a key", vec![key.clone()], Proof::Key),
            ("an empty user", vec![key.clone(), user("")], Proof::Key),
            ("key and user", vec![key.clone(), ada.clone()], unsigned),
            ("basic authentication", vec![key.clone(), ada.clone(), basic], unsigned),
            ("an unknown key", vec![("API-KEY", "unknown".to_owned()), ada.clone()], invalid),
            ("key and secret", vec![key.clone(), secret.clone()], Proof::Secret),
            ("key, secret and user", vec![key.clone(), secret.clone(), ada.clone()], Proof::SecretForUser),
            ("a wrong secret", vec![key.clone(), ada.clone(), wrong()], invalid),
            (
                "another app's secret",
                vec![key.clone(), ada.clone(), ("API-SECRET", self.bank.secret.clone())],
                invalid,
            ),
            ("another app's key", vec![("API-KEY", self.bank.key.clone()), ada, secret.clone()], invalid),
            ("two secrets", vec![key, secret, wrong()], Proof::Wrong("conflicting_credentials")),
        ]
    }

    /// Cases with a signature in place of a token.
    fn signed(&self) -> Vec<Case> {
        let good = signature(&self.app.secret, "ada");
        let foreign = signature(&self.bank.secret, "ada");
        let case = |name, texts: &[String], proof| -> Case {
            let signatures = texts.iter().map(|text| ("USER-SIGNATURE", text.clone()));
            (name, [self.key(), user("ada")].into_iter().chain(signatures).collect(), proof)
        };
        let (wrong, base64) = (Proof::Unsigned("invalid_signature"), STANDARD.encode(good));
        vec![
            case("signed in base64", std::slice::from_ref(&base64), Proof::Signed),
            case("signed in URL-safe base64", &[URL_SAFE_NO_PAD.encode(good)], Proof::Signed),
            case("signed in hex", &[hex(&good)], Proof::Signed),
            case("signed in capital hex", &[hex(&good).to_uppercase()], Proof::Signed),
            case("the same signature twice", &[hex(&good), hex(&good)], Proof::Signed),
            case("an empty signature", &[String::new()], Proof::Unsigned("signature_required")),
            case("null as a signature", &["null".to_owned()], wrong),
            case("undefined as a signature", &["undefined".to_owned()], wrong),
            case("a signature that is not ASCII", &["ä".repeat(32)], wrong),
            case("a truncated signature", &[base64[..40].to_owned()], wrong),
            case("a signature of another user", &[hex(&signature(&self.app.secret, "bob"))], wrong),
            case("a signature of another app", &[hex(&foreign)], wrong),
            case("a signature with the key as secret", &[hex(&signature(&self.app.key, "ada"))], wrong),
            case("two signatures", &[hex(&good), hex(&foreign)], Proof::Unsigned("conflicting_credentials")),
        ]
    }

    /// Cases with several credentials, or with a user id beside a token.
    fn combined(&self) -> Vec<Case> {
        let token = bearer(&self.es.token(&self.claims()));
        let expired = bearer(&self.es.token(&with(self.claims(), "exp", json!(seconds(-300)))));
        let other = bearer(&self.hs.token(&self.claims()));
        let (key, secret) = (self.key(), self.secret());
        let conflicting = Proof::Wrong("conflicting_credentials");
        let of_bank = bearer(&self.bank_key.token(&claims(&self.bank, "ada")));
        let mine = Proof::SecretForUser;
        let junk = ("USER-SIGNATURE", "null".to_owned());
        vec![
            ("token and key", vec![token.clone(), key.clone()], Proof::Token),
            ("token and user", vec![token.clone(), user("ada")], Proof::Token),
            (
                "token and an invalid signature",
                vec![token.clone(), key.clone(), user("ada"), junk.clone()],
                Proof::Token,
            ),
            ("secret and an invalid signature", vec![secret.clone(), key.clone(), user("ada"), junk], mine),
            ("one token twice", vec![token.clone(), token.clone()], Proof::Token),
            ("token and secret", vec![token.clone(), secret.clone()], mine),
            (
                "token, key, secret and user",
                vec![token.clone(), key.clone(), secret.clone(), user("ada")],
                mine,
            ),
            ("two tokens", vec![token.clone(), other], conflicting),
            ("a token and another user", vec![token.clone(), key.clone(), user("bob")], conflicting),
            (
                "a token, the secret and another user",
                vec![token.clone(), key.clone(), secret.clone(), user("bob")],
                conflicting,
            ),
            (
                "a token and another app's key",
                vec![token.clone(), ("API-KEY", self.bank.key.clone())],
                conflicting,
            ),
            ("another app's token", vec![of_bank, key.clone(), user("ada")], conflicting),
            (
                "a token and a wrong secret",
                vec![token, ("API-SECRET", "wrong".to_owned())],
                Proof::Wrong("invalid_credentials"),
            ),
            (
                "an expired token and the secret",
                vec![expired, key, secret, user("ada")],
                Proof::Wrong("token_expired"),
            ),
        ]
    }
}

fn user(identifier: &str) -> (&'static str, String) {
    ("USER-ID", identifier.to_owned())
}

fn bearer(token: &str) -> (&'static str, String) {
    ("Authorization", format!("Bearer {token}"))
}

#[tokio::test]
async fn every_combination_of_switches_and_credentials_admits_the_right_callers() {
    let service = Service::start_with(Backing::Nothing).await;
    let (mut ran, mut let_in) = (0, 0);
    for bits in 0..8 {
        let switches = Switches { secure_mode: bits & 1 > 0, hmac: bits & 2 > 0, require_exp: bits & 4 > 0 };
        let world = World::create(&service, switches).await;
        for (name, headers, proof) in world.cases() {
            for (mode, what) in CALLS {
                let mut call = service.call(what).json(&json!({"deviceType": "browser"}));
                call = call.header("X-SERVICE-DEVICE-ID", "d1");
                for (header, value) in &headers {
                    let prefix = if *header == "Authorization" { "" } else { "X-SERVICE-" };
                    call = call.header(&format!("{prefix}{header}"), value);
                }
                let answer = call.send().await;
                let refusal = proof.refusal(mode, switches);
                let refused = answer.body["code"].as_str();
                let expected = if refusal.is_some() { 401 } else { 200 };
                assert_eq!(
                    (answer.status, refused),
                    (expected, refusal),
                    "{what} {switches:?} {name}: {headers:?}"
                );
                ran += 1;
                let_in += u32::from(refusal.is_none());
            }
        }
    }
    println!("{ran} combinations of switches, credentials and calls; {let_in} were admitted");
}
