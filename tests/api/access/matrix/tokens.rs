//! Valid bearer tokens, and tokens with one fault.

use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::{Value, json};

use super::{Proof, World};
use crate::signer::{Signer, forged, part, seconds, with, without};

/// Name of the case, the token, and the proof that it provides.
type TokenCase = (&'static str, String, Proof);

impl World {
    pub(super) fn good_tokens(&self) -> Vec<TokenCase> {
        let fine = self.claims();
        let anonymous = |signer: &Signer| signer.token_under(&json!({"alg": signer.algorithm}), &fine);
        let near = |name, offset| self.es.token(&with(fine.clone(), name, json!(seconds(offset))));
        let good = |name, token| (name, token, Proof::Token);
        vec![
            good("RS256", self.rs.token(&fine)),
            good("ES256", self.es.token(&fine)),
            good("HS256", self.hs.token(&fine)),
            good("RS256 without kid", anonymous(&self.rs)),
            good("ES256 without kid", anonymous(&self.es)),
            good("HS256 without kid", anonymous(&self.hs)),
            good("a sub without prefix", self.es.token(&with(fine.clone(), "sub", json!("ada")))),
            good("an exp 40 s ago", near("exp", -40)),
            good("an nbf in 40 s", near("nbf", 40)),
            good("an iat in 40 s", near("iat", 40)),
            good(
                "a fraction of a second",
                self.es.token(&with(fine.clone(), "exp", json!(seconds(9) as f64 + 0.5))),
            ),
            good("no iat", self.es.token(&without(fine.clone(), "iat"))),
            good("further claims", self.es.token(&with(fine.clone(), "aud", json!(["x"])))),
            ("no exp", self.es.token(&without(fine, "exp")), Proof::EndlessToken),
        ]
    }

    pub(super) fn bad_tokens(&self) -> Vec<TokenCase> {
        let fine = self.claims();
        let token = self.es.token(&fine);
        let (message, signature) = token.rsplit_once('.').unwrap();
        let (header, _) = message.split_once('.').unwrap();
        let bob = part(&with(fine.clone(), "sub", json!("bob")));
        let changed = |name, value| self.es.token(&with(fine.clone(), name, value));
        let under = |header| self.es.token_under(&header, &fine);
        let malformed = |name, token: String| (name, token, Proof::Wrong("malformed_token"));
        let invalid = |name, token: String| (name, token, Proof::Wrong("invalid_token"));
        let future = Proof::Wrong("token_not_yet_valid");
        let critical = json!({"alg": "ES256", "kid": self.es.kid, "crit": ["exp"]});
        vec![
            malformed("no token", String::new()),
            malformed("the word null", "null".to_owned()),
            malformed("two parts", message.to_owned()),
            malformed("four parts", format!("{token}.{signature}")),
            malformed("no base64", token.replacen('e', "!", 1)),
            malformed("a header that is not an object", under(json!("ES256"))),
            malformed("a header without alg", under(json!({"kid": self.es.kid}))),
            malformed("a kid that is not a string", under(json!({"alg": "ES256", "kid": 1}))),
            malformed("a header with crit", under(critical)),
            malformed("a sub that is not a string", changed("sub", json!(7))),
            malformed("an exp that is not a number", changed("exp", json!("never"))),
            malformed("a long token", changed("more", json!("x".repeat(9_000)))),
            invalid("no signature", format!("{message}.")),
            invalid("a truncated signature", token[..token.len() - 4].to_owned()),
            invalid("changed claims", format!("{header}.{bob}.{signature}")),
            invalid("no sub", self.es.token(&without(fine.clone(), "sub"))),
            invalid("an empty sub", changed("sub", json!("user:"))),
            invalid("a long sub", changed("sub", json!("u".repeat(256)))),
            invalid("no apiKey", self.es.token(&without(fine.clone(), "apiKey"))),
            ("expired", changed("exp", json!(seconds(-120))), Proof::Wrong("token_expired")),
            ("not yet valid", changed("nbf", json!(seconds(120))), future),
            ("issued tomorrow", changed("iat", json!(seconds(86_400))), future),
        ]
    }

    /// Tokens that were not signed by the app.
    pub(super) fn foreign_tokens(&self) -> Vec<TokenCase> {
        let fine = self.claims();
        let invalid = |name, token| (name, token, Proof::Wrong("invalid_token"));
        let anonymous = |signer: &Signer| signer.token_under(&json!({"alg": signer.algorithm}), &fine);
        vec![
            invalid("signed by another app", self.bank_key.token(&fine)),
            invalid("signed by another app, without kid", anonymous(&self.bank_key)),
            invalid(
                "signed by another app, our kid",
                self.bank_key.token_under(&json!({"alg": "ES256", "kid": self.es.kid}), &fine),
            ),
            invalid("signed with a revoked key", self.revoked.token(&fine)),
            invalid("signed with a revoked key, without kid", anonymous(&self.revoked)),
            invalid("an unknown kid", self.es.token_under(&json!({"alg": "ES256", "kid": "unknown"}), &fine)),
            invalid(
                "the kid of another key",
                self.es.token_under(&json!({"alg": "ES256", "kid": self.rs.kid}), &fine),
            ),
            invalid("an empty kid", self.es.token_under(&json!({"alg": "ES256", "kid": ""}), &fine)),
        ]
    }

    /// Tokens whose header does not name the algorithm of their key.
    pub(super) fn swapped_tokens(&self) -> Vec<TokenCase> {
        let fine = self.claims();
        let invalid = |name, token| (name, token, Proof::Wrong("invalid_token"));
        let public = EncodingKey::from_secret(self.rs.public_key.as_bytes());
        let shared = |header: Value| forged(&header, &fine, &public, Algorithm::HS256);
        let unsigned =
            |alg: &str| format!("{}.{}.", part(&json!({"alg": alg, "kid": self.rs.kid})), part(&fine));
        let longer =
            forged(&json!({"alg": "RS512", "kid": self.rs.kid}), &fine, &self.rs.key, Algorithm::RS512);
        let pss = forged(&json!({"alg": "PS256", "kid": self.rs.kid}), &fine, &self.rs.key, Algorithm::PS256);
        vec![
            invalid("the public key as a secret", shared(json!({"alg": "HS256", "kid": self.rs.kid}))),
            invalid("the public key as a secret, without kid", shared(json!({"alg": "HS256"}))),
            invalid(
                "the public key as a secret, as RS256",
                shared(json!({"alg": "RS256", "kid": self.rs.kid})),
            ),
            invalid(
                "ES256 under an RS256 kid",
                self.es.token_under(&json!({"alg": "ES256", "kid": self.rs.kid}), &fine),
            ),
            invalid(
                "RS256 under an ES256 kid",
                self.rs.token_under(&json!({"alg": "RS256", "kid": self.es.kid}), &fine),
            ),
            invalid(
                "RS256 that says HS256",
                self.rs.token_under(&json!({"alg": "HS256", "kid": self.rs.kid}), &fine),
            ),
            invalid(
                "RS256 that says none",
                self.rs.token_under(&json!({"alg": "none", "kid": self.rs.kid}), &fine),
            ),
            invalid("RS512", longer),
            invalid("PS256", pss),
            invalid("none", unsigned("none")),
            invalid("NONE", unsigned("NONE")),
            invalid("none without kid", format!("{}.{}.", part(&json!({"alg": "none"})), part(&fine))),
            invalid("an unsigned RS256", unsigned("RS256")),
        ]
    }
}
