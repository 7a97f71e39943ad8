//! Ends of live connections: users, credentials and tokens that are no longer valid, and stopping gateways.

use domain::Actor;
use std::time::Duration;

use serde_json::json;
use testkit::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::time::{Instant, timeout};

use super::live::{Live, user_headers};
use crate::service::{App, SOON, Service};

#[tokio::test]
async fn a_connection_ends_when_its_user_or_its_credentials_are_no_longer_valid() {
    use domain::app_setting::AppSetting;
    let service = Service::start().await;
    let shop = service.app("shop").await;
    for user in ["ada", "bob", "cyd"] {
        service.deliver(&shop, user, 1).await;
    }
    let erased = Live::open(&service, &shop, "cyd").await;
    service.by(&shop, "DELETE /v3/users/cyd").send().await.is(202);
    assert_eq!(erased.ends().await, "erased");

    let mut oldest = Some(Live::open(&service, &shop, "bob").await);
    let mut newer = Vec::new();
    for _ in 0..20 {
        newer.push(Live::open(&service, &shop, "bob").await);
    }
    assert_eq!(oldest.take().unwrap().ends().await, "replaced");
    service.deliver(&shop, "bob", 1).await;
    for live in &mut newer {
        live.expect("notification.created").await;
    }

    let unproven = Live::open(&service, &shop, "ada").await;
    let by_app = [("X-SERVICE-API-SECRET", shop.secret.clone())];
    let (by_app, _) =
        Live::open_at(service.address, &[user_headers(&shop, "ada"), by_app.to_vec()].concat(), None).await;
    let control = service.context.store.control();
    assert!(control.set_settings(shop.id, &[AppSetting::SecureMode(true)], &Actor::System).await.unwrap());
    assert_eq!(unproven.ends().await, "credentials");
    assert!(control.set_settings(shop.id, &[AppSetting::Disabled(true)], &Actor::System).await.unwrap());
    assert_eq!(by_app.ends().await, "app_disabled");
}

#[tokio::test]
async fn a_connection_ends_with_its_token() {
    use crate::signer::{Signer, claims, seconds, with};
    let service = Service::start().await;
    let shop = service.app("shop").await;
    // The gateway has not read the app yet, so it will know the key at once.
    let signer = Signer::create(&service, &shop, domain::SigningAlgorithm::Es256).await;
    service.deliver(&shop, "ada", 1).await;
    // On a slow machine, a token may expire before the gateway opens the stream.
    let live = eventually(SOON, "the stream is open", async || {
        let soon = with(claims(&shop, "ada"), "exp", json!(seconds(4)));
        let bearer = [("Authorization", format!("Bearer {}", signer.token(&soon)))];
        Live::try_open(service.address, &bearer, None).await.ok()
    })
    .await;
    assert_eq!(live.ends().await, "expired");
}

#[tokio::test]
async fn a_connection_ends_when_the_secret_or_the_key_that_opened_it_is_revoked() {
    use crate::signer::{Signer, claims, hex, signature};
    use domain::app_setting::AppSetting;
    let service = Service::start().await;
    let control = service.context.store.control();
    let shop = service.app("shop").await;
    assert!(control.set_settings(shop.id, &[AppSetting::Hmac(true)], &Actor::System).await.unwrap());
    // Only a secret that was created after the switch `hmac` was set can sign.
    let shop = service.rotate(&shop, "first", Duration::ZERO).await;
    let signer = Signer::create(&service, &shop, domain::SigningAlgorithm::Es256).await;
    let other = Signer::create(&service, &shop, domain::SigningAlgorithm::Es256).await;
    service.by(&shop, "PUT /v3/users/ada").json(&json!({})).send().await.is(200);

    let by_token =
        |signer: &Signer| vec![("Authorization", format!("Bearer {}", signer.token(&claims(&shop, "ada"))))];
    let by_secret = |app: &App| {
        let secret = ("X-SERVICE-API-SECRET", app.secret.clone());
        [user_headers(app, "ada"), vec![secret]].concat()
    };
    let by_signature = |app: &App| {
        let signature = ("X-SERVICE-USER-SIGNATURE", hex(&signature(&app.secret, "ada")));
        [user_headers(app, "ada"), vec![signature]].concat()
    };
    let (of_token, _) = Live::open_at(service.address, &by_token(&signer), None).await;
    let (mut of_other, _) = Live::open_at(service.address, &by_token(&other), None).await;
    let (of_secret, _) = Live::open_at(service.address, &by_secret(&shop), None).await;
    let (of_signature, _) = Live::open_at(service.address, &by_signature(&shop), None).await;

    assert!(control.revoke_signing_key(shop.id, &signer.kid, &Actor::System).await.unwrap());
    assert_eq!(of_token.ends().await, "expired", "the client can get another token");
    let rotated = service.rotate(&shop, "second", Duration::ZERO).await;
    assert_eq!(of_secret.ends().await, "credentials");
    assert_eq!(of_signature.ends().await, "credentials");
    let (mut signed, _) = Live::open_at(service.address, &by_signature(&rotated), None).await;
    assert!(control.set_settings(shop.id, &[AppSetting::Hmac(false)], &Actor::System).await.unwrap());
    eventually(SOON, "the gateway needs no signature", async || {
        let list = service.of(&rotated, "ada", "GET /v3/notifications").send().await;
        (list.status == 200).then_some(())
    })
    .await;
    // Gateways check the credentials every second.
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        service.publish_item(&rotated, "ada", "1").await;
        of_other.expect("notification.created").await;
        signed.expect("notification.created").await;
    }
    let public = Live::open(&service, &rotated, "ada").await;
    assert!(control.set_settings(shop.id, &[AppSetting::Hmac(true)], &Actor::System).await.unwrap());
    assert_eq!(public.ends().await, "credentials");
    assert_eq!(
        signed.ends().await,
        "credentials",
        "the switch deleted the secret that verifies the signature"
    );
}

#[tokio::test]
async fn a_stopping_gateway_says_goodbye_and_another_serves_on() {
    let service = Service::start().await;
    let (other, stops) = service.another_gateway().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 1).await;
    let (live, _) = Live::open_at(other, &user_headers(&shop, "ada"), None).await;
    let (waiting, _) = Live::open_at(other, &user_headers(&shop, "zoe"), None).await;
    let mut serves_on = Live::open(&service, &shop, "ada").await;
    stops.tasks.stop();
    assert_eq!(live.ends().await, "stopping");
    assert_eq!(waiting.ends().await, "stopping");
    service.deliver(&shop, "ada", 1).await;
    serves_on.expect("notification.created").await;
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_reset_and_delays_no_other() {
    // The notifications of a round fit into a queue.
    const TITLE: usize = 15_000;
    const EACH: usize = 4;
    const SEND_BUFFER: u32 = 65_536;
    // More than is kept for a connection by the kernel, which doubles the buffer, and by the gateway.
    let rounds = 2 * SEND_BUFFER as usize / (EACH * TITLE) + 20;
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.deliver(&shop, "ada", 1).await;
    // Connections inherit the small buffer. Filling a large one could outlast the time limit of a stalled connection.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_send_buffer_size(SEND_BUFFER).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(16).unwrap().into_std().unwrap();
    let address = listener.local_addr().unwrap();
    let context = service.another().await;
    context.serve("gateway", |context| gateway::serve(context, listener));
    let (mut reads, _) = Live::open_at(address, &user_headers(&shop, "ada"), None).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut stalled = socket.connect(address).await.unwrap();
    let request = format!(
        "GET /v3/stream HTTP/1.1\r\nHost: localhost\r\nX-SERVICE-API-KEY: {}\r\nX-SERVICE-USER-ID: ada\r\n\r\n",
        shop.key
    );
    stalled.write_all(request.as_bytes()).await.unwrap();
    let title = "x".repeat(TITLE);
    for _ in 0..rounds {
        for _ in 0..EACH {
            service.publish_item(&shop, "ada", &title).await;
        }
        for _ in 0..EACH {
            reads.expect("notification.created").await;
        }
    }
    service.publish_item(&shop, "ada", "the last one").await;
    reads.expect("notification.created").await;

    let mut text = String::new();
    let mut bytes = vec![0; 65_536];
    while !text.contains("the last one") {
        let read = timeout(SOON, stalled.read(&mut bytes)).await.expect("the last one arrives").unwrap();
        assert!(read > 0, "the stream has ended");
        text += &String::from_utf8_lossy(&bytes[..read]);
    }
    assert_eq!(text.matches("event: reset").count(), text.matches("\"too_slow\"").count());
    assert!(text.contains("\"too_slow\""), "the client was not slow enough: {} bytes", text.len());
    assert!(text.len() < rounds * EACH * TITLE, "the gateway kept {} bytes", text.len());
}
