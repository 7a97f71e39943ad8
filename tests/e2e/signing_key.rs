//! `tidings app signing-key`: prints a signing key once, and stores the key that verifies its tokens.

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, encode};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use store::control::signing_key::Verifier;

use crate::installation::Installation;

fn validation(algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.required_spec_claims.clear();
    validation
}

#[tokio::test]
async fn the_printed_key_signs_and_the_stored_key_verifies() {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    let claims = json!({"sub": "user:ada"});
    for (arguments, algorithm) in [
        (&[][..], Algorithm::RS256),
        (&["--algorithm", "es256"], Algorithm::ES256),
        (&["--algorithm", "HS256"], Algorithm::HS256),
    ] {
        let create = [&["app", "signing-key", "create", "shop", "--json"], arguments].concat();
        let printed = installation.run(&create).json();
        let text = |name: &str| printed[name].as_str().unwrap_or_default().to_owned();
        assert_eq!(printed["algorithm"], json!(algorithm));
        let app = installation.store.control().app_by_name_or_id("shop").await.unwrap().unwrap();
        let kept = app.signing_keys.iter().find(|key| key.kid == text("kid")).unwrap();
        let (signs, verifies) = match &kept.verifier {
            Verifier::PublicKey(pem) => {
                assert_eq!((text("publicKey"), &printed["secret"]), (pem.clone(), &Value::Null));
                assert!(text("privateKey").starts_with("-----BEGIN PRIVATE KEY-----\n"));
                let (private, public) = (text("privateKey").into_bytes(), pem.as_bytes());
                match algorithm {
                    Algorithm::RS256 => {
                        assert!(pem.len() > 400, "the key has at least 2048 bits");
                        (
                            EncodingKey::from_rsa_pem(&private).unwrap(),
                            DecodingKey::from_rsa_pem(public).unwrap(),
                        )
                    }
                    _ => (
                        EncodingKey::from_ec_pem(&private).unwrap(),
                        DecodingKey::from_ec_pem(public).unwrap(),
                    ),
                }
            }
            Verifier::Sealed(sealed) => {
                assert_eq!((&printed["privateKey"], &printed["publicKey"]), (&Value::Null, &Value::Null));
                let secret = text("secret");
                assert!(!sealed.windows(secret.len()).any(|window| window == secret.as_bytes()));
                let context = format!("signing-key:{}:{}", app.id, kept.kid);
                let opened = installation.master_key.open(&context, sealed).unwrap();
                (
                    EncodingKey::from_secret(secret.as_bytes()),
                    DecodingKey::from_secret(opened.expose_secret()),
                )
            }
        };
        let token = encode(&Header::new(algorithm), &claims, &signs).unwrap();
        assert_eq!(decode::<Value>(&token, &verifies, &validation(algorithm)).unwrap().claims, claims);
    }
    assert_eq!(installation.run(&["app", "signing-key", "create", "shop", "--algorithm", "none"]).code, 2);
    assert_eq!(installation.run(&["app", "signing-key", "create", "shoe"]).code, 1);
}

#[tokio::test]
async fn signing_keys_are_listed_without_secrets_and_revoked_by_name() {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    let create = ["app", "signing-key", "create", "shop", "--algorithm", "HS256"];
    let people = installation.run(&create);
    assert_eq!(people.code, 0, "{}", people.errors);
    assert!(people.output.contains("not shown again"), "{}", people.output);
    let mut kids = Vec::new();
    for _ in 1..8 {
        let created = installation.run(&[&create[..], &["--json"]].concat()).json();
        let listed = installation.run(&["app", "signing-key", "list", "shop"]).output;
        assert!(!listed.contains(created["secret"].as_str().unwrap()), "{listed}");
        kids.push(created["kid"].as_str().unwrap().to_owned());
    }
    let ninth = installation.run(&create);
    assert_eq!(ninth.code, 1);
    assert!(ninth.errors.contains("revoke"), "{}", ninth.errors);

    let revoke = ["app", "signing-key", "revoke", "shop", &kids[0]];
    assert_eq!(installation.run(&revoke).code, 0);
    let again = installation.run(&revoke);
    assert_eq!(again.code, 1);
    assert!(again.errors.contains("signing-key list"), "{}", again.errors);
    let listed = installation.run(&["app", "signing-key", "list", "shop", "--json"]).json();
    let listed: Vec<_> = listed.as_array().unwrap().iter().map(|key| key["kid"].as_str().unwrap()).collect();
    assert_eq!(listed.len(), 7);
    assert!(!listed.contains(&kids[0].as_str()) && listed.contains(&kids[1].as_str()));
    let app = &installation.run(&["app", "list", "--json"]).json()[0];
    assert_eq!(app["signingKeys"].as_array().unwrap().len(), 7);
    assert_eq!(app["signingKeys"][0]["algorithm"], "HS256");
}
