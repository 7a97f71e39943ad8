use jsonwebtoken::{EncodingKey, Header, encode};
use serde_json::json;

use super::*;

const NOW: i64 = 1_800_000_000;
const EXPECTED: Expected<'static> =
    Expected { issuer: "https://id.example.com", client_id: "tidings", nonce: "n0nce", now: NOW };
/// An Ed25519 key in PKCS #8 (RFC 8410), and another one.
const KEYS: [&str; 2] = [
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n",
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f\n-----END PRIVATE KEY-----\n",
];

/// A P-256 key and an RSA key of 2048 bits in PKCS #8.
const P256: &str = include_str!("p256.pem");
const RSA: &str = include_str!("rsa.pem");

fn jwk(key: &str, kid: &str) -> Jwk {
    let key = EncodingKey::from_ed_pem(key.as_bytes()).unwrap();
    let mut jwk = Jwk::from_encoding_key(&key, Algorithm::EdDSA).unwrap();
    jwk.common.key_id = Some(kid.to_owned());
    jwk
}

fn claims(change: &Value) -> Value {
    let mut claims = json!({
        "iss": EXPECTED.issuer, "aud": EXPECTED.client_id, "sub": "ada", "nonce": EXPECTED.nonce,
        "iat": NOW - 5, "exp": NOW + 300,
    });
    let members = claims.as_object_mut().unwrap();
    for (name, value) in change.as_object().unwrap() {
        if value.is_null() {
            members.remove(name);
        } else {
            members.insert(name.clone(), value.clone());
        }
    }
    claims
}

fn signed(key: &str, kid: Option<&str>, change: &Value) -> String {
    let header = Header { kid: kid.map(str::to_owned), ..Header::new(Algorithm::EdDSA) };
    encode(&header, &claims(change), &EncodingKey::from_ed_pem(key.as_bytes()).unwrap()).unwrap()
}

fn verified(token: &str) -> Result<Map<String, Value>, Refused> {
    verify(token, &[jwk(KEYS[0], "one")], &EXPECTED)
}

#[test]
fn a_token_of_the_provider_for_this_client_and_sign_in_is_accepted() {
    for accepted in [
        json!({}),
        json!({"aud": ["tidings"]}),
        json!({"aud": ["tidings", "other"], "azp": "tidings"}),
        json!({"exp": NOW - 59}),
        json!({"iat": NOW + 59}),
        json!({"auth_time": NOW + 59}),
        json!({"iat": NOW as f64 + 0.5}),
    ] {
        let claims = verified(&signed(KEYS[0], Some("one"), &accepted)).unwrap();
        assert_eq!(claims["sub"], "ada", "{accepted}");
    }
    assert!(verified(&signed(KEYS[0], None, &json!({}))).is_ok(), "one key needs no name");
}

#[test]
fn tokens_of_each_algorithm_are_verified_with_a_key_of_its_kind_only() {
    let rsa = EncodingKey::from_rsa_pem(RSA.as_bytes()).unwrap();
    let p256 = EncodingKey::from_ec_pem(P256.as_bytes()).unwrap();
    let public = |key: &EncodingKey, algorithm| {
        let mut jwk = Jwk::from_encoding_key(key, algorithm).unwrap();
        jwk.common.key_id = Some("one".to_owned());
        jwk
    };
    let token = |key: &EncodingKey, algorithm| {
        let header = Header { kid: Some("one".to_owned()), ..Header::new(algorithm) };
        encode(&header, &claims(&json!({})), key).unwrap()
    };
    for (key, algorithm) in [(&rsa, Algorithm::RS256), (&rsa, Algorithm::PS256), (&p256, Algorithm::ES256)] {
        let signed = token(key, algorithm);
        let claims = verify(&signed, &[public(key, algorithm)], &EXPECTED).unwrap();
        assert_eq!(claims["sub"], "ada", "{algorithm:?}");
        // The signature is the last part: its first character is changed.
        let (message, signature) = signed.rsplit_once('.').unwrap();
        let first = if signature.starts_with('A') { "B" } else { "A" };
        let forged = format!("{message}.{first}{}", signature.get(1..).unwrap());
        let refused = verify(&forged, &[public(key, algorithm)], &EXPECTED);
        assert_eq!(refused, Err(Refused::Signature), "{algorithm:?}");
        let refused = verify(&signed, &[jwk(KEYS[0], "one")], &EXPECTED);
        assert_eq!(refused, Err(Refused::UnknownKey), "{algorithm:?} with a key of another kind");
    }
    let other = verify(&token(&rsa, Algorithm::PS256), &[public(&rsa, Algorithm::RS256)], &EXPECTED);
    assert_eq!(other, Err(Refused::UnknownKey), "the key is for another algorithm");
    for refused in [Algorithm::RS384, Algorithm::RS512, Algorithm::PS384, Algorithm::PS512] {
        let refused = verify(&token(&rsa, refused), &[public(&rsa, Algorithm::RS256)], &EXPECTED);
        assert_eq!(refused, Err(Refused::Algorithm));
    }
}

#[test]
fn a_token_with_a_wrong_claim_is_refused() {
    for (change, reason) in [
        (json!({"iss": "https://id.example.com/"}), Refused::Issuer),
        (json!({"iss": null}), Refused::Issuer),
        (json!({"aud": "other"}), Refused::Audience),
        (json!({"aud": null}), Refused::Audience),
        (json!({"aud": ["tidings", "other"]}), Refused::Audience),
        (json!({"aud": ["tidings", "other"], "azp": "other"}), Refused::Audience),
        (json!({"azp": "other"}), Refused::Audience),
        (json!({"exp": NOW - 60}), Refused::Expired),
        (json!({"exp": null}), Refused::Expired),
        (json!({"iat": null}), Refused::Expired),
        (json!({"iat": NOW - 700}), Refused::Expired),
        (json!({"iat": NOW + 61}), Refused::Future),
        (json!({"nbf": NOW + 61}), Refused::Future),
        (json!({"auth_time": NOW + 61}), Refused::Future),
        (json!({"nonce": "other"}), Refused::Nonce),
        (json!({"nonce": null}), Refused::Nonce),
        (json!({"sub": ""}), Refused::Subject),
        (json!({"sub": null}), Refused::Subject),
    ] {
        let refused = verified(&signed(KEYS[0], Some("one"), &change));
        assert_eq!(refused, Err(reason), "{change}");
    }
}

#[test]
fn a_token_of_another_key_or_algorithm_is_refused() {
    let unsigned = |header: &Value| {
        let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.", part(header), part(&claims(&json!({}))))
    };
    assert_eq!(verified(&unsigned(&json!({"alg": "none"}))), Err(Refused::Algorithm));
    assert_eq!(verified(&unsigned(&json!({"alg": "EdDSA", "kid": "one"}))), Err(Refused::Signature));

    // The public key as the secret of an HMAC.
    let AlgorithmParameters::OctetKeyPair(public) = jwk(KEYS[0], "one").algorithm else { unreachable!() };
    let header = Header { kid: Some("one".to_owned()), ..Header::new(Algorithm::HS256) };
    let secret = EncodingKey::from_secret(&BASE64_URL_SAFE_NO_PAD.decode(public.x).unwrap());
    let confused = encode(&header, &claims(&json!({})), &secret).unwrap();
    assert_eq!(verified(&confused), Err(Refused::Algorithm));

    assert_eq!(verified(&signed(KEYS[1], Some("one"), &json!({}))), Err(Refused::Signature));
    assert_eq!(verified(&signed(KEYS[0], Some("two"), &json!({}))), Err(Refused::UnknownKey));
    let two = [jwk(KEYS[0], "one"), jwk(KEYS[1], "two")];
    let nameless = signed(KEYS[0], None, &json!({}));
    assert_eq!(verify(&nameless, &two, &EXPECTED), Err(Refused::UnknownKey));
    assert!(verify(&signed(KEYS[1], Some("two"), &json!({})), &two, &EXPECTED).is_ok());
    let mut for_encryption = jwk(KEYS[0], "one");
    for_encryption.common.public_key_use = Some(PublicKeyUse::Encryption);
    let token = signed(KEYS[0], Some("one"), &json!({}));
    assert_eq!(verify(&token, &[for_encryption], &EXPECTED), Err(Refused::UnknownKey));
    for malformed in ["", "a", "a.b", "a.b.c", "....", &"x".repeat(70_000)] {
        assert!(verified(malformed).is_err(), "{malformed}");
    }
    let (message, signature) = token.rsplit_once('.').unwrap();
    let changed = message.replace(message.split_once('.').unwrap().1, &BASE64_URL_SAFE_NO_PAD.encode("{}"));
    assert_eq!(verified(&format!("{changed}.{signature}")), Err(Refused::Signature));
}
