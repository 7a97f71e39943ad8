//! Switches of an app.

use std::num::NonZeroU32;

use domain::{Actor, AppId, TemplateProfile, TokenSubject};
use sqlx::Row;
use store::control::app::{App, NewApp, NewSecret};
use store::control::switch::Switch;

use crate::{Fixture, fixture};

async fn app(fixture: &Fixture, id: AppId) -> App {
    fixture.store.control().app_by_name_or_id(&id.to_string()).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_new_app_has_every_switch_off_and_its_addresses_guarded_outside_development() {
    let fixture = fixture().await;
    for development in [true, false] {
        let name = format!("development {development}");
        let new = NewApp { name: &name, api_key: &name, development };
        let draft = fixture.store.control().create_app(new, &Actor::System).await.unwrap().unwrap();
        let id = draft.commit(NewSecret { digest: b"digest", sealed: b"sealed" }).await.unwrap();
        let App {
            secure_mode,
            hmac,
            require_exp,
            disabled,
            cors_origins,
            rate_limit,
            transactional_rate,
            ..
        } = app(&fixture, id).await;
        assert_eq!([secure_mode, hmac, require_exp, disabled], [false; 4]);
        assert_eq!((cors_origins, rate_limit, transactional_rate), (None, None, None));
        assert_eq!(app(&fixture, id).await.guards_addresses(), !development);
    }
}

// The test is long because it lists every switch.
#[allow(clippy::too_many_lines)]
#[tokio::test]
async fn each_switch_is_set_alone_and_audited() {
    let fixture = fixture().await;
    let (shop, bank) = (fixture.app("shop").await, fixture.app("bank").await);
    let untouched = app(&fixture, bank).await;
    let defaults = [
        Switch::SecureMode(false),
        Switch::Hmac(false),
        Switch::RequireExp(false),
        Switch::GuardAddresses(false),
        Switch::TokenSubject(TokenSubject::Either),
        Switch::TemplateProfile(TemplateProfile::All),
        Switch::MaxUsers(None),
        Switch::MaxCategories(None),
        Switch::MaxDevices(None),
        Switch::MaxTopics(None),
        Switch::MaxSubscriptions(None),
        Switch::MaxSendMegabytes(None),
        Switch::MaxFileMegabytes(None),
        Switch::KeepSends(None),
        Switch::CorsOrigins(None),
        Switch::RateLimit(None),
        Switch::TransactionalRate(None),
        Switch::Disabled(false),
    ];
    assert!(fixture.store.control().set_switches(shop, &defaults, &Actor::System).await.unwrap());
    let before = app(&fixture, shop).await;
    let origins = vec!["https://a.example".to_owned(), "https://b.example".to_owned()];
    let limit = NonZeroU32::new(7);
    let cases = [
        (Switch::SecureMode(true), App { secure_mode: true, ..before.clone() }),
        (Switch::Hmac(true), App { hmac: true, ..before.clone() }),
        (Switch::RequireExp(true), App { require_exp: true, ..before.clone() }),
        (Switch::GuardAddresses(true), App { guard_addresses: Some(true), ..before.clone() }),
        (
            Switch::TokenSubject(TokenSubject::Bare),
            App { token_subject: TokenSubject::Bare, ..before.clone() },
        ),
        (
            Switch::TemplateProfile(TemplateProfile::App),
            App { template_profile: TemplateProfile::App, ..before.clone() },
        ),
        (Switch::MaxUsers(limit), App { max_users: Some(7), ..before.clone() }),
        (Switch::MaxCategories(limit), App { max_categories: Some(7), ..before.clone() }),
        (Switch::MaxDevices(limit), App { max_devices: Some(7), ..before.clone() }),
        (Switch::MaxTopics(limit), App { max_topics: Some(7), ..before.clone() }),
        (Switch::MaxSubscriptions(limit), App { max_subscriptions: Some(7), ..before.clone() }),
        (Switch::MaxSendMegabytes(limit), App { max_send_megabytes: Some(7), ..before.clone() }),
        (Switch::MaxFileMegabytes(limit), App { max_file_megabytes: Some(7), ..before.clone() }),
        (Switch::KeepSends(limit), App { keep_sends: limit, ..before.clone() }),
        (Switch::CorsOrigins(Some(origins.clone())), App { cors_origins: Some(origins), ..before.clone() }),
        (Switch::CorsOrigins(Some(vec![])), App { cors_origins: Some(vec![]), ..before.clone() }),
        (Switch::RateLimit(limit), App { rate_limit: limit, ..before.clone() }),
        (Switch::TransactionalRate(limit), App { transactional_rate: limit, ..before.clone() }),
        (Switch::Disabled(true), App { disabled: true, ..before.clone() }),
    ];
    for (switch, expected) in cases {
        assert!(
            fixture
                .store
                .control()
                .set_switches(shop, std::slice::from_ref(&switch), &Actor::Cli("ada".to_owned()))
                .await
                .unwrap()
        );
        assert_eq!(app(&fixture, shop).await, expected, "{switch}");
        assert!(fixture.store.control().set_switches(shop, &defaults, &Actor::System).await.unwrap());
    }
    assert_eq!(app(&fixture, shop).await, before);
    assert_eq!(app(&fixture, bank).await, untouched);

    let audit = "SELECT subject FROM audit WHERE actor = 'cli:ada' AND action = 'app.set' ORDER BY id";
    let rows = sqlx::query(audit).fetch_all(&fixture.pool).await.unwrap();
    let subjects: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    let expected = [
        "secure-mode=on",
        "hmac=on",
        "require-exp=on",
        "address-keys=guarded",
        "token-subject=bare",
        "template-profile=app",
        "max-users=7",
        "max-categories=7",
        "max-devices=7",
        "max-topics=7",
        "max-subscriptions=7",
        "max-send-megabytes=7",
        "max-file-megabytes=7",
        "keep-sends=7",
        "cors-origins=https://a.example,https://b.example",
        "cors-origins=none",
        "rate-limit=7",
        "transactional-rate=7",
        "disabled=on",
    ];
    assert_eq!(subjects, expected);
}

#[tokio::test]
async fn switches_are_set_together_or_not_at_all() {
    let fixture = fixture().await;
    let shop = fixture.app("shop").await;
    let too_many = [Switch::Hmac(true), Switch::RateLimit(NonZeroU32::new(u32::MAX))];
    assert!(fixture.store.control().set_switches(shop, &too_many, &Actor::System).await.is_err());
    assert!(!app(&fixture, shop).await.hmac);
    assert!(
        !fixture
            .store
            .control()
            .set_switches(AppId(999), &[Switch::Hmac(true)], &Actor::System)
            .await
            .unwrap()
    );
}
