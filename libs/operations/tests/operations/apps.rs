//! Apps, their credentials and their settings.

use std::num::NonZeroU32;
use std::time::Duration;

use credentials::link::{Link, Links, Purpose};
use credentials::secrets::{SecretsError, sha256};
use domain::app_setting::AppSetting;
use domain::{ActorKind, AppId, CategoryId, TemplateProfile, TokenSubject, UserNumber};
use operations::apps::creation::{self, PublicAccess};
use operations::apps::{keys, settings};
use operations::{MasterKeySource, Object, OperationError};
use secrecy::ExposeSecret;
use serde_json::json;
use service_kit::clock;

use crate::world;

#[tokio::test]
async fn a_new_app_has_all_of_its_credentials_at_once() {
    let world = world().await;
    let control = world.store.control();
    assert_eq!(control.apps_without_vapid_key().await.unwrap(), []);
    assert_eq!(control.apps_without_link_key().await.unwrap(), []);
    let access = PublicAccess::Development;
    let created = creation::create(&world.operations, &world.admin, "play", access).await.unwrap();
    let app = control.app_by_key(&created.api_key).await.unwrap().unwrap();
    assert_eq!((app.id, app.development), (created.id, true));
    let digest = sha256(created.api_secret.expose_secret().as_bytes());
    assert_eq!(app.secrets.iter().map(|secret| secret.digest.as_slice()).collect::<Vec<_>>(), [digest]);
}

#[tokio::test]
async fn a_created_app_requires_expiring_tokens_unless_opened() {
    let world = world().await;
    let (bare, guarded) = ((TokenSubject::Either, TemplateProfile::All), true);
    let prefixed = (TokenSubject::Prefixed, TemplateProfile::App);
    for (access, needs_token, trust, guards) in [
        (PublicAccess::Closed, true, prefixed, guarded),
        (PublicAccess::Open, false, prefixed, guarded),
        (PublicAccess::Development, false, bare, !guarded),
    ] {
        let name = format!("{access:?}");
        let id = creation::create(&world.operations, &world.admin, &name, access).await.unwrap().id;
        let app = world.store.control().app(id).await.unwrap().unwrap();
        assert_eq!([app.settings.secure_mode, app.settings.require_exp], [needs_token; 2], "{name}");
        assert_eq!((app.settings.token_subject, app.settings.template_profile), trust, "{name}");
        assert_eq!(app.guards_addresses(), guards, "{name}");
    }
}

#[tokio::test]
async fn an_invalid_name_is_refused_with_its_problems() {
    let world = world().await;
    let refused =
        creation::create(&world.operations, &world.admin, "", PublicAccess::Open).await.unwrap_err();
    let OperationError::Invalid(problems) = refused else { panic!("{refused}") };
    assert_eq!(problems.len(), 1, "{problems:?}");
}

#[tokio::test]
async fn an_app_is_created_or_its_secret_is_renewed() {
    let world = world().await;
    let access = PublicAccess::Open;
    let renew =
        || creation::create_or_renew(&world.operations, &world.admin, "smoke", access, Duration::ZERO);
    let (id, key, secret) = renew().await.unwrap();
    let (again, same_key, new_secret) = renew().await.unwrap();
    assert_eq!((id, key), (again, same_key));
    assert_ne!(secret.expose_secret(), new_secret.expose_secret());
}

#[tokio::test]
async fn a_rotated_secret_stays_valid_for_its_grace_period() {
    let world = world().await;
    let secrets = async || world.store.control().app(world.shop).await.unwrap().unwrap().secrets;
    let first = secrets().await[0].digest.clone();
    let rotate = |grace| keys::rotate_secret(&world.operations, &world.admin, world.shop, grace);
    let second = rotate(Duration::from_secs(3_600)).await.unwrap();
    let second = sha256(second.expose_secret().as_bytes()).to_vec();
    let valid = secrets().await;
    assert_eq!(valid.iter().map(|secret| &secret.digest).collect::<Vec<_>>(), [&second, &first]);
    assert!(valid[0].expires_at.is_none() && valid[1].expires_at.is_some());
    let third = rotate(Duration::ZERO).await.unwrap();
    let valid = secrets().await;
    assert_eq!(valid.len(), 1);
    assert_eq!(valid[0].digest, sha256(third.expose_secret().as_bytes()));
    let unknown = keys::rotate_secret(&world.operations, &world.admin, AppId(999), Duration::ZERO).await;
    assert!(matches!(unknown, Err(OperationError::NotFound(Object::App))));
}

#[tokio::test]
async fn rotating_the_link_key_revokes_links_after_its_grace() {
    let world = world().await;
    let MasterKeySource::Loaded(master_key) = &world.master_key else { panic!("the key is loaded") };
    // Each call creates a new instance with an empty key cache, like a process that has just started.
    let links = || Links::new(world.store.clone(), master_key.clone(), clock::now);
    let link = Link { app: world.shop, user: UserNumber(7), purpose: Purpose::Unsubscribe(CategoryId(3)) };
    let token = links().sign(&link).await.unwrap();
    let rotate = |grace| keys::rotate_link_key(&world.operations, &world.admin, world.shop, grace);
    assert_eq!(rotate(Duration::from_secs(60)).await.unwrap(), 2);
    assert_eq!(links().verify(&token).await.unwrap(), Some(link), "the link is valid during the grace");
    assert_eq!(rotate(Duration::ZERO).await.unwrap(), 3);
    assert_eq!(links().verify(&token).await.unwrap(), None);
    let renewed = links().sign(&link).await.unwrap();
    assert_eq!(links().verify(&renewed).await.unwrap(), Some(link));
    let unknown = keys::rotate_link_key(&world.operations, &world.admin, AppId(999), Duration::ZERO).await;
    assert!(matches!(unknown, Err(OperationError::NotFound(Object::App))));
}

#[tokio::test]
async fn settings_are_recorded_with_their_values_before_and_after() {
    let world = world().await;
    let limit = AppSetting::RateLimit(NonZeroU32::new(500));
    let app = settings::set(&world.operations, &world.admin, world.shop, &[limit]).await.unwrap();
    assert_eq!(app.settings.rate_limit, NonZeroU32::new(500));
    let audit = world.audit().await;
    assert_eq!((audit[0].actor.as_str(), audit[0].actor_kind), ("cli:ada", Some(ActorKind::Cli)));
    assert_eq!((audit[0].action.as_str(), audit[0].subject.as_str()), ("app.set", "rate-limit=500"));
    assert_eq!(audit[0].before, Some(json!({"rate-limit": "default"})));
    assert_eq!(audit[0].after, Some(json!({"rate-limit": "500"})));
    let unknown = settings::set(&world.operations, &world.admin, AppId(999), &[AppSetting::Hmac(true)]).await;
    assert!(matches!(unknown, Err(OperationError::NotFound(Object::App))));
}

#[tokio::test]
async fn only_use_cases_that_seal_or_open_secrets_need_the_master_key() {
    let world = world().await;
    let without_key = world.without_key();
    settings::set(&without_key, &world.admin, world.shop, &[AppSetting::Hmac(true)]).await.unwrap();
    let refused = keys::rotate_secret(&without_key, &world.admin, world.shop, Duration::ZERO).await;
    let Err(OperationError::Defect(cause)) = refused else { panic!("{refused:?}") };
    assert!(matches!(cause.downcast_ref(), Some(SecretsError::NotConfigured)), "{cause}");
}
