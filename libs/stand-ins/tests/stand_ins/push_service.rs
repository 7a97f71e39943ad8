//! Tests of the refusals by the stand-in for a push service.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use stand_ins::http::HttpSettings;
use stand_ins::outbox::Outbox;
use stand_ins::push_service::PushServiceStandIn;

/// Example from RFC 8291, section 5: a valid message that is not encrypted for any browser of these tests.
const BODY: &str = concat!(
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27ml",
    "mlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPT",
    "pK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN",
);

struct World {
    push_service: PushServiceStandIn,
    endpoint: String,
    key: EncodingKey,
    public_key: String,
}

async fn world() -> World {
    let push_service = PushServiceStandIn::start(HttpSettings::default(), Outbox::in_memory()).await.unwrap();
    let endpoint = push_service.subscribe(None).unwrap().endpoint().to_owned();
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let public_key = URL_SAFE_NO_PAD.encode(pair.public_key());
    let key = EncodingKey::from_ec_der(pair.to_pkcs8v1().unwrap().as_ref());
    World { push_service, endpoint, key, public_key }
}

fn seconds(from_now: i64) -> i64 {
    #[allow(clippy::disallowed_methods, reason = "the stand-in has a clock")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_secs()).unwrap() + from_now
}

async fn call(method: Method, url: &str, headers: &[(&str, &str)], body: Vec<u8>) -> (u16, Value) {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let mut request = Request::builder().method(method).uri(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let sent = client.request(request.body(Full::new(body.into())).unwrap());
    let answer = tokio::time::timeout(Duration::from_secs(20), sent).await.unwrap().unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

impl World {
    fn authorization(&self, claims: &Value) -> String {
        let token = encode(&Header::new(Algorithm::ES256), claims, &self.key).unwrap();
        format!("vapid t={token}, k={}", self.public_key)
    }

    fn claims(&self) -> Value {
        json!({"aud": self.push_service.url(), "exp": seconds(3_600), "sub": "mailto:push@example.com"})
    }

    /// Sends a message with valid headers, except for the header `changed`. An empty value removes that header.
    async fn send(&self, changed: (&str, &str), body: Vec<u8>) -> (u16, String) {
        let authorization = self.authorization(&self.claims());
        let sound = [
            ("authorization", authorization.as_str()),
            ("content-encoding", "aes128gcm"),
            ("ttl", "60"),
            ("urgency", "low"),
            ("topic", "t"),
        ];
        let headers = sound.map(|(name, value)| if name == changed.0 { changed } else { (name, value) });
        let headers: Vec<_> = headers.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        let (status, answer) = call(Method::POST, &self.endpoint, &headers, body).await;
        (status, answer["message"].as_str().unwrap_or_default().to_owned())
    }
}

fn body() -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(BODY).unwrap()
}

#[tokio::test]
async fn a_token_must_be_signed_for_this_service_and_expire_within_a_day() {
    let world = world().await;
    let other = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let sound = world.authorization(&world.claims());
    let with = |name: &str, value: Value| {
        let mut claims = world.claims();
        claims[name] = value;
        world.authorization(&claims)
    };
    let cases = [
        ("", 401, "missing or repeated"),
        ("Bearer x", 401, "not vapid"),
        ("vapid t=x", 401, "no k"),
        ("vapid t=x, k=AAAA", 401, "not a public key"),
        (&sound.replace(&world.public_key, &URL_SAFE_NO_PAD.encode(other.public_key())), 403, "is not valid"),
        (&with("aud", json!("http://127.0.0.1")), 403, "is not valid"),
        (&with("aud", Value::Null), 403, "is not valid"),
        (&with("exp", json!(seconds(-10))), 403, "is not valid"),
        (&with("exp", json!(seconds(86_500))), 403, "longer than a day"),
        (&with("sub", Value::Null), 403, "is not valid"),
        (&with("sub", json!("nobody")), 403, "neither mailto"),
    ];
    for (authorization, status, why) in cases {
        let (found, message) = world.send(("authorization", authorization), body()).await;
        assert_eq!(found, status, "{authorization}: {message}");
        assert!(message.contains(why), "{authorization}: {message}");
    }
    let (status, message) = world.send(("", ""), body()).await;
    assert_eq!((status, &*message), (400, "the message was not encrypted for this browser"));
}

#[tokio::test]
async fn headers_and_bodies_must_follow_the_rfcs() {
    let world = world().await;
    for (name, value, why) in [
        ("content-encoding", "aesgcm", "not aes128gcm"),
        ("content-encoding", "", "not aes128gcm"),
        ("ttl", "", "TTL"),
        ("ttl", "-1", "TTL"),
        ("ttl", "1.5", "TTL"),
        ("urgency", "urgent", "Urgency"),
        ("topic", "a b", "Topic"),
        ("topic", "a=", "Topic"),
        ("topic", &"t".repeat(33), "Topic"),
    ] {
        let (status, message) = world.send((name, value), body()).await;
        assert!(status == 400 && message.contains(why), "{name}: {value}: {status} {message}");
    }
    let changed = |at: usize, byte: u8| {
        let mut body = body();
        body[at] = byte;
        body
    };
    for (body, status, why) in [
        (Vec::new(), 400, "within its header"),
        (body()[..86].to_vec(), 400, "not one record"),
        (body()[..85].to_vec(), 400, "within its header"),
        (changed(20, 64), 400, "not an uncompressed point"),
        (changed(21, 2), 400, "not an uncompressed point"),
        (changed(18, 0), 400, "too small"),
        ([body(), vec![0; 4096]].concat(), 413, "4096"),
    ] {
        let (found, message) = world.send(("", ""), body).await;
        assert!(found == status && message.contains(why), "{found} {message}, not {status} {why}");
    }
    assert!(world.push_service.outbox().captures().is_empty());
}

#[tokio::test]
async fn browsers_subscribe_over_http_and_may_choose_the_answer_to_their_messages() {
    let mut world = world().await;
    let subscriptions = format!("{}/subscriptions", world.push_service.url());
    let subscribe = async |body: Value| {
        let (status, browser) = call(Method::POST, &subscriptions, &[], body.to_string().into_bytes()).await;
        assert_eq!(status, 201, "{browser}");
        let point = URL_SAFE_NO_PAD.decode(browser["keys"]["p256dh"].as_str().unwrap()).unwrap();
        assert_eq!((point.len(), &browser["expirationTime"]), (65, &Value::Null));
        browser["endpoint"].as_str().unwrap().to_owned()
    };
    for (asked, status) in [
        (json!({"answers": 410}), 410),
        (json!({"answers": 429}), 429),
        (json!({"applicationServerKey": "another"}), 403),
        (json!({"applicationServerKey": world.public_key}), 400),
        (json!({}), 400),
    ] {
        world.endpoint = subscribe(asked.clone()).await;
        assert_eq!(world.send(("", ""), body()).await.0, status, "{asked}");
    }
    world.endpoint = format!("{}/push/nobody", world.push_service.url());
    assert_eq!(world.send(("", ""), body()).await.0, 404);
    let (status, _) = call(Method::POST, &subscriptions, &[], b"{".to_vec()).await;
    assert_eq!(status, 400);
    let (status, _) = call(Method::GET, &world.endpoint, &[], Vec::new()).await;
    assert_eq!(status, 405);
    let browser = world.push_service.subscribe(None).unwrap();
    world.push_service.unsubscribe(&browser);
    world.endpoint = browser.endpoint().to_owned();
    assert_eq!(world.send(("", ""), body()).await.0, 410);
}
