use std::sync::atomic::{AtomicUsize, Ordering};

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::json;
use service_kit::config::Oidc as Settings;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::oidc::Oidc;
use crate::oidc::token::{Expected, Refused};

const ISSUER: &str = "https://id.example.com";

fn read(change: &Value) -> Result<Metadata, OidcError> {
    let mut document = json!({
        "issuer": ISSUER, "authorization_endpoint": "https://id.example.com/auth",
        "token_endpoint": "https://id.example.com/token", "jwks_uri": "https://id.example.com/jwks",
    });
    let members = document.as_object_mut().unwrap();
    members.extend(change.as_object().unwrap().clone());
    Metadata::read(ISSUER, members)
}

#[test]
fn metadata_names_its_issuer_and_addresses_with_https() {
    let metadata = read(&json!({})).unwrap();
    assert!(!metadata.secret_in_body && !metadata.names_issuer && metadata.userinfo_endpoint.is_none());
    for refused in [
        json!({"issuer": "https://id.example.com/"}),
        json!({"issuer": null}),
        json!({"authorization_endpoint": "http://id.example.com/auth"}),
        json!({"token_endpoint": null}),
        json!({"jwks_uri": "javascript:alert(1)"}),
    ] {
        assert!(read(&refused).is_err(), "{refused}");
    }
    let methods = json!({"token_endpoint_auth_methods_supported": ["client_secret_post"]});
    assert!(read(&methods).unwrap().secret_in_body);
}

/// A P-256 key in PKCS #8.
const KEY: &str = include_str!("../token/p256.pem");
const NOW: i64 = 1_800_000_000;

/// A provider that answers each call with the keys, or with what a test made of them.
#[derive(Default)]
struct Answers {
    /// Names of the keys.
    names: std::sync::Mutex<Vec<String>>,
    /// Bytes that follow the keys.
    padding: usize,
    /// True if only the head of an answer is sent.
    is_silent: bool,
    calls: AtomicUsize,
}

impl Answers {
    fn naming(names: &[&str]) -> Answers {
        let answers = Answers::default();
        answers.rename(names);
        answers
    }

    fn rename(&self, names: &[&str]) {
        *self.names.lock().unwrap() = names.iter().map(|&name| name.to_owned()).collect();
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    async fn answer(&self, mut stream: TcpStream) {
        let mut asked = [0; 4_096];
        assert!(stream.read(&mut asked).await.unwrap() > 0);
        self.calls.fetch_add(1, Ordering::SeqCst);
        let names = self.names.lock().unwrap().clone();
        let keys: Vec<Value> = names.iter().map(|name| public_key(name)).collect();
        let body = json!({"keys": keys}).to_string() + &" ".repeat(self.padding);
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).await.unwrap();
        if self.is_silent {
            // The client gives up, and closes the connection.
            assert_eq!(stream.read(&mut asked).await.unwrap_or(0), 0);
        } else {
            // A client that refuses a long answer closes the connection.
            drop(stream.write_all(body.as_bytes()).await);
        }
    }
}

/// Serves answers on a free port. Returns a client of them, and the addresses of the provider.
async fn serve(answers: &Arc<Answers>) -> (Oidc, Metadata) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let issuer = format!("http://{}", listener.local_addr().unwrap());
    let answers = answers.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            answers.answer(stream).await;
        }
    });
    let metadata = json!({
        "issuer": issuer, "authorization_endpoint": issuer, "token_endpoint": issuer, "jwks_uri": issuer,
    });
    let metadata = Metadata::read(&issuer, metadata.as_object().unwrap()).unwrap();
    let settings = Settings {
        issuer,
        client_id: "tidings".to_owned(),
        client_secret_file: None,
        scopes: Vec::new(),
        role_claim: None,
        role_map: Vec::new(),
        allowed_domains: Vec::new(),
    };
    (Oidc::new(&settings, "http://127.0.0.1:8090").unwrap(), metadata)
}

fn public_key(name: &str) -> Value {
    let key = EncodingKey::from_ec_pem(KEY.as_bytes()).unwrap();
    let mut jwk = Jwk::from_encoding_key(&key, Algorithm::ES256).unwrap();
    jwk.common.key_id = Some(name.to_owned());
    serde_json::to_value(jwk).unwrap()
}

/// Verifies a token that is signed with a key of this name.
async fn verify(oidc: &Oidc, metadata: &Metadata, name: &str) -> Result<(), OidcError> {
    let expected = Expected { issuer: &oidc.settings.issuer, client_id: "tidings", nonce: "n0nce", now: NOW };
    let claims = json!({
        "iss": expected.issuer, "aud": "tidings", "sub": "ada", "nonce": "n0nce", "iat": NOW, "exp": NOW + 300,
    });
    let header = Header { kid: Some(name.to_owned()), ..Header::new(Algorithm::ES256) };
    let token = encode(&header, &claims, &EncodingKey::from_ec_pem(KEY.as_bytes()).unwrap()).unwrap();
    oidc.verify(metadata, &token, &expected).await.map(drop)
}

#[tokio::test]
async fn an_unknown_key_is_looked_for_once_and_not_again_within_the_limit() {
    let answers = Arc::new(Answers::naming(&["old"]));
    let (oidc, metadata) = serve(&answers).await;
    verify(&oidc, &metadata, "old").await.unwrap();
    verify(&oidc, &metadata, "old").await.unwrap();
    assert_eq!(answers.calls(), 1, "known keys are not read again");

    answers.rename(&["old", "new"]);
    let older = Instant::now().checked_sub(KEYS_STAND_FOR).unwrap();
    oidc.provider.keys.lock().await.as_mut().unwrap().0 = older;
    verify(&oidc, &metadata, "new").await.unwrap();
    assert_eq!(answers.calls(), 2, "the provider has rotated its keys");

    for _ in 0..5 {
        let refused = verify(&oidc, &metadata, "forged").await;
        assert!(matches!(refused, Err(OidcError::Token(Refused::UnknownKey))), "{refused:?}");
    }
    assert_eq!(answers.calls(), 2, "they were read a moment ago");
    oidc.provider.keys.lock().await.as_mut().unwrap().0 = older;
    for _ in 0..5 {
        assert!(verify(&oidc, &metadata, "forged").await.is_err());
    }
    assert_eq!(answers.calls(), 3);
}

#[tokio::test]
async fn an_answer_that_is_too_long_or_too_slow_is_refused() {
    let fitting = LONGEST_ANSWER - json!({"keys": [public_key("one")]}).to_string().len();
    for (padding, is_refused) in [(fitting, false), (fitting + 1, true)] {
        let answers = Answers { padding, ..Answers::naming(&["one"]) };
        let (oidc, metadata) = serve(&Arc::new(answers)).await;
        let read = oidc.provider.keys(&metadata, false).await;
        assert_eq!(matches!(read, Err(OidcError::Unusable("an answer is too long"))), is_refused, "{read:?}");
    }
    let silent = Answers { is_silent: true, ..Answers::naming(&["one"]) };
    let (oidc, metadata) = serve(&Arc::new(silent)).await;
    let asked = Instant::now();
    let read = oidc.provider.keys(&metadata, false).await;
    assert!(matches!(read, Err(OidcError::Unreachable(_))), "{read:?}");
    assert!(asked.elapsed() >= CALL_WITHIN && asked.elapsed() < CALL_WITHIN * 3, "{:?}", asked.elapsed());
}
