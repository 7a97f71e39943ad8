//! Settings of an app.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use domain::app_setting::{AppSetting, AppSettings};
use domain::{Actor, AppId, TemplateProfile, TokenSubject};
use serde_json::json;
use sqlx::Row;
use store::control::app::{App, NewApp, NewSecret};

use crate::{Fixture, fixture};

async fn app(fixture: &Fixture, id: AppId) -> App {
    fixture.store.control().app_by_name_or_id(&id.to_string()).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_new_app_has_every_setting_off_and_its_addresses_guarded_outside_development() {
    let fixture = fixture().await;
    for development in [true, false] {
        let name = format!("development {development}");
        let new = NewApp { name: &name, api_key: &name, development };
        let draft = fixture.store.control().create_app(new, &Actor::System).await.unwrap().unwrap();
        let id = draft.commit(NewSecret { digest: b"digest", sealed: b"sealed" }).await.unwrap();
        let AppSettings {
            secure_mode,
            hmac,
            require_exp,
            disabled,
            cors_origins,
            rate_limit,
            transactional_rate,
            ..
        } = app(&fixture, id).await.settings;
        assert_eq!([secure_mode, hmac, require_exp, disabled], [false; 4]);
        assert_eq!((cors_origins, rate_limit, transactional_rate), (None, None, None));
        assert_eq!(app(&fixture, id).await.guards_addresses(), !development);
    }
}

// The test is long because it lists every setting.
#[allow(clippy::too_many_lines)]
#[tokio::test]
async fn each_setting_is_set_alone_and_audited() {
    let fixture = fixture().await;
    let (shop, bank) = (fixture.app("shop").await, fixture.app("bank").await);
    let untouched = app(&fixture, bank).await;
    let defaults = [
        AppSetting::SecureMode(false),
        AppSetting::Hmac(false),
        AppSetting::RequireExp(false),
        AppSetting::GuardAddresses(Some(false)),
        AppSetting::TokenSubject(TokenSubject::Either),
        AppSetting::TemplateProfile(TemplateProfile::All),
        AppSetting::MaxUsers(None),
        AppSetting::MaxCategories(None),
        AppSetting::MaxDevices(None),
        AppSetting::MaxTopics(None),
        AppSetting::MaxSubscriptions(None),
        AppSetting::MaxSendMegabytes(None),
        AppSetting::MaxFileMegabytes(None),
        AppSetting::RealtimeConnections(None),
        AppSetting::KeepSends(None),
        AppSetting::CorsOrigins(None),
        AppSetting::RateLimit(None),
        AppSetting::TransactionalRate(None),
        AppSetting::BrandName(None),
        AppSetting::BrandLogo(None),
        AppSetting::BrandColor(None),
        AppSetting::BrandAddress(None),
        AppSetting::EmailButton(None),
        AppSetting::EmailUnsubscribe(None),
        AppSetting::EmailLayout(None),
        AppSetting::Disabled(false),
    ];
    assert!(fixture.store.control().set_settings(shop, &defaults, &Actor::System).await.unwrap());
    let before = app(&fixture, shop).await;
    let origins = vec!["https://a.example".to_owned(), "https://b.example".to_owned()];
    let limit = NonZeroU32::new(7);
    let text = |text: &str| Some(text.to_owned());
    let color = Some("#635bff".parse().unwrap());
    let cases = [
        (AppSetting::SecureMode(true), AppSettings { secure_mode: true, ..before.settings.clone() }),
        (AppSetting::Hmac(true), AppSettings { hmac: true, ..before.settings.clone() }),
        (AppSetting::RequireExp(true), AppSettings { require_exp: true, ..before.settings.clone() }),
        (
            AppSetting::GuardAddresses(Some(true)),
            AppSettings { guard_addresses: Some(true), ..before.settings.clone() },
        ),
        (
            AppSetting::TokenSubject(TokenSubject::Bare),
            AppSettings { token_subject: TokenSubject::Bare, ..before.settings.clone() },
        ),
        (
            AppSetting::TemplateProfile(TemplateProfile::App),
            AppSettings { template_profile: TemplateProfile::App, ..before.settings.clone() },
        ),
        (AppSetting::MaxUsers(limit), AppSettings { max_users: limit, ..before.settings.clone() }),
        (AppSetting::MaxCategories(limit), AppSettings { max_categories: limit, ..before.settings.clone() }),
        (AppSetting::MaxDevices(limit), AppSettings { max_devices: limit, ..before.settings.clone() }),
        (AppSetting::MaxTopics(limit), AppSettings { max_topics: limit, ..before.settings.clone() }),
        (
            AppSetting::MaxSubscriptions(limit),
            AppSettings { max_subscriptions: limit, ..before.settings.clone() },
        ),
        (
            AppSetting::MaxSendMegabytes(limit),
            AppSettings { max_send_megabytes: limit, ..before.settings.clone() },
        ),
        (
            AppSetting::MaxFileMegabytes(limit),
            AppSettings { max_file_megabytes: limit, ..before.settings.clone() },
        ),
        (
            AppSetting::RealtimeConnections(limit),
            AppSettings { realtime_connections: limit, ..before.settings.clone() },
        ),
        (AppSetting::KeepSends(limit), AppSettings { keep_sends: limit, ..before.settings.clone() }),
        (
            AppSetting::CorsOrigins(Some(origins.clone())),
            AppSettings { cors_origins: Some(origins), ..before.settings.clone() },
        ),
        (
            AppSetting::CorsOrigins(Some(vec![])),
            AppSettings { cors_origins: Some(vec![]), ..before.settings.clone() },
        ),
        (AppSetting::RateLimit(limit), AppSettings { rate_limit: limit, ..before.settings.clone() }),
        (
            AppSetting::TransactionalRate(limit),
            AppSettings { transactional_rate: limit, ..before.settings.clone() },
        ),
        (
            AppSetting::BrandName(text("Shop")),
            AppSettings { brand_name: text("Shop"), ..before.settings.clone() },
        ),
        (
            AppSetting::BrandLogo(text("https://a.example/")),
            AppSettings { brand_logo: text("https://a.example/"), ..before.settings.clone() },
        ),
        (AppSetting::BrandColor(color), AppSettings { brand_color: color, ..before.settings.clone() }),
        (
            AppSetting::BrandAddress(text("Street 1")),
            AppSettings { brand_address: text("Street 1"), ..before.settings.clone() },
        ),
        (
            AppSetting::EmailButton(text("Open")),
            AppSettings { email_button: text("Open"), ..before.settings.clone() },
        ),
        (
            AppSetting::EmailUnsubscribe(text("Stop")),
            AppSettings { email_unsubscribe: text("Stop"), ..before.settings.clone() },
        ),
        (
            AppSetting::EmailLayout(text("layout")),
            AppSettings { email_layout: text("layout"), ..before.settings.clone() },
        ),
        (AppSetting::Disabled(true), AppSettings { disabled: true, ..before.settings.clone() }),
    ];
    for (setting, expected) in cases {
        assert!(
            fixture
                .store
                .control()
                .set_settings(shop, std::slice::from_ref(&setting), &Actor::Cli("ada".to_owned()))
                .await
                .unwrap()
        );
        assert_eq!(app(&fixture, shop).await, App { settings: expected, ..before.clone() }, "{setting}");
        assert!(fixture.store.control().set_settings(shop, &defaults, &Actor::System).await.unwrap());
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
        "realtime-connections=7",
        "keep-sends=7",
        "cors-origins=https://a.example,https://b.example",
        "cors-origins=none",
        "rate-limit=7",
        "transactional-rate=7",
        "brand-name=Shop",
        "brand-logo=https://a.example/",
        "brand-color=#635bff",
        "brand-address=Street 1",
        "email-button=Open",
        "email-unsubscribe=Stop",
        "email-layout=layout",
        "disabled=on",
    ];
    assert_eq!(subjects, expected);
    let names = cases_of(&subjects);
    assert_eq!(names, AppSetting::NAMES.iter().copied().collect(), "every setting has a case");
    let changed = fixture.store.database().list_audit(shop.into(), 1_000).await.unwrap();
    let changed = changed.iter().find(|row| row.subject == "max-users=7").unwrap();
    assert_eq!(changed.before, Some(json!({"max-users": "default"})));
    assert_eq!(changed.after, Some(json!({"max-users": "7"})));
}

fn cases_of<'a>(subjects: &[&'a str]) -> BTreeSet<&'a str> {
    subjects.iter().filter_map(|subject| Some(subject.split_once('=')?.0)).collect()
}

#[tokio::test]
async fn settings_are_set_together_or_not_at_all() {
    let fixture = fixture().await;
    let shop = fixture.app("shop").await;
    let too_many = [AppSetting::Hmac(true), AppSetting::RateLimit(NonZeroU32::new(u32::MAX))];
    assert!(fixture.store.control().set_settings(shop, &too_many, &Actor::System).await.is_err());
    assert!(!app(&fixture, shop).await.settings.hmac);
    assert!(
        !fixture
            .store
            .control()
            .set_settings(AppId(999), &[AppSetting::Hmac(true)], &Actor::System)
            .await
            .unwrap()
    );
}
