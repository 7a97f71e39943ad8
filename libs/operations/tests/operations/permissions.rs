//! Each use case checks the permission of its caller before it reads or changes anything.

use std::sync::LazyLock;
use std::time::Duration;

use domain::app_setting::AppSetting;
use domain::redrive::RunState;
use domain::{
    CategoryId, Channel, DeliveryId, Reason, Role, SendId, SigningAlgorithm, TemplateProfile, Timestamp,
    TopicId, UserNumber,
};
use operations::apps::creation::{self, PublicAccess};
use operations::apps::{self, keys, settings};
use operations::operators::roles::{self, SeenRole};
use operations::overview::Overviews;
use operations::people::reveal::{self, MaskedTarget};
use operations::providers::{self, Draft, Expected, KnownKind};
use operations::requests::{self, SendFilter};
use operations::sends::recent;
use operations::templates::{self, Sample, TemplateDocument};
use operations::{
    Caller, Conflict, Grant, Object, OperationError, Operations, Permission, audit, categories, explain,
    operators, parked, people,
    redrives::{self, NewRedrive},
    refused_calls, suppressions, topics,
    users::{self, UserFilter},
    webhooks,
};
use serde_json::json;
use store::database::audit::{AuditFilter, AuditScope};
use store::deliveries::redrive::ParkedFilter;
use store::deliveries::suppression::SuppressionFilter;
use store::deliveries::waiting::WaitingCause;
use store::directory::category::{CategoryValues, NewCategory};
use store::sends::pairs::PairFilter;
use uuid::Uuid;

use crate::{World, world};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// Calls a use case, and notes the permission that was denied.
macro_rules! call {
    ($denied:ident, $name:literal, $call:expr) => {
        match $call.await.map(drop) {
            Err(OperationError::Denied(permission)) => $denied.push(($name, permission)),
            Ok(()) | Err(OperationError::NotFound(_) | OperationError::Conflict(_)) => {}
            Err(error) => panic!("{}: {error}", $name),
        }
    };
}

/// Calls every use case with a permission, and returns the permissions that were denied, by name of the use case.
async fn denials(world: &World, operations: &Operations, caller: &Caller) -> Vec<(&'static str, Permission)> {
    static KINDS: LazyLock<[KnownKind; 1]> = LazyLock::new(|| {
        [KnownKind {
            channel: Channel::Sms,
            name: "pigeon",
            example: "{}",
            secrets: &[],
            check: Box::new(|_| Ok(())),
        }]
    });
    let app = world.shop;
    let provider = json!({"identifier": "main", "channel": "sms", "kind": "pigeon", "settings": {}});
    let draft = Draft::read(&*KINDS, provider).unwrap();
    let url = "https://shop.example/hook";
    let of_app = ParkedFilter { app: Some(app), ..ParkedFilter::default() };
    let suppressed = SuppressionFilter { app: Some(app), ..SuppressionFilter::default() };
    let mut denied = directory_denials(world, operations, caller).await;
    denied.extend(template_denials(world, operations, caller).await);
    denied.extend(reading_denials(world, operations, caller).await);
    denied.extend(provider_denials(world, operations, caller, &KINDS[0], &draft).await);
    call!(denied, "list endpoints", webhooks::list(operations, caller, app));
    call!(denied, "failed webhooks", webhooks::failed(operations, caller, app, None, 1));
    let (any, send) = (SendFilter::default(), SendId(Uuid::nil()));
    call!(denied, "list sends", requests::list(operations, caller, app, any, 1));
    call!(denied, "cancellable send", requests::cancellable(operations, caller, app, send));
    call!(denied, "cancel send", requests::cancel(operations, caller, app, send));
    call!(denied, "list waiting", requests::waiting(operations, caller, Some(app)));
    call!(denied, "explain send", explain::request(operations, caller, app, "ada", send, false));
    call!(denied, "explain sends", explain::latest(operations, caller, app, "ada", any, 1, false));
    call!(denied, "list parked", parked::list(operations, caller, &of_app, None, 1));
    call!(denied, "list suppressions", suppressions::list(operations, caller, suppressed, 1, false));
    call!(denied, "reveal suppressions", suppressions::list(operations, caller, suppressed, 1, true));
    call!(denied, "lift suppression", suppressions::lift(operations, caller, app, Channel::Sms, "+49151"));
    let delivery = DeliveryId(Uuid::nil());
    call!(denied, "find suppression", suppressions::find(operations, caller, app, Channel::Sms, delivery));
    call!(denied, "set provider", providers::set(operations, caller, app, &draft));
    call!(denied, "enable provider", providers::enable(operations, caller, app, "main", true));
    call!(denied, "disable provider", providers::enable(operations, caller, app, "main", false));
    call!(denied, "remove provider", providers::remove(operations, caller, app, "main"));
    call!(denied, "set endpoint", webhooks::set(operations, caller, app, url, &[]));
    call!(
        denied,
        "rotate endpoint secret",
        webhooks::rotate_secret(operations, caller, app, 1, Duration::ZERO)
    );
    call!(denied, "endpoint secrets", webhooks::secrets(operations, caller, app, 1));
    call!(denied, "redeliver webhooks", webhooks::redeliver(operations, caller, app, None, None));
    call!(denied, "remove endpoint", webhooks::remove(operations, caller, app, 1));
    call!(denied, "preview redrive", parked::preview(operations, caller, &of_app));
    call!(denied, "redrive", parked::redrive(operations, caller, &of_app, || NOW, |_| ()));
    denied.extend(redrive_denials(world, operations, caller).await);
    denied.extend(seen_denials(world, operations, caller).await);
    call!(denied, "set app", settings::set(operations, caller, app, &[AppSetting::MaxUsers(None)]));
    call!(denied, "rotate secret", keys::rotate_secret(operations, caller, app, Duration::ZERO));
    call!(denied, "create key", keys::create_signing_key(operations, caller, app, SigningAlgorithm::Hs256));
    call!(denied, "revoke key", keys::revoke_signing_key(operations, caller, app, "key_1"));
    call!(denied, "rotate link key", keys::rotate_link_key(operations, caller, app, Duration::ZERO));
    call!(denied, "audit", audit::list(operations, caller, app.into(), 1));
    denied
}

/// Calls the use cases whose forms name the state that they showed, like [`denials`].
async fn seen_denials(
    world: &World,
    operations: &Operations,
    caller: &Caller,
) -> Vec<(&'static str, Permission)> {
    let (app, mut denied) = (world.shop, Vec::new());
    let url = "https://shop.example/hook";
    call!(
        denied,
        "rotate seen endpoint secret",
        webhooks::rotate_seen_secret(operations, caller, app, (1, 1), Duration::ZERO)
    );
    let missing = webhooks::SeenEndpoint::Missing;
    call!(denied, "set seen endpoint", webhooks::set_seen(operations, caller, app, url, &[], missing));
    let shop = world.store.control().app(app).await.unwrap().unwrap();
    call!(denied, "set seen app", settings::set_seen(operations, caller, &shop, &[], "none"));
    call!(
        denied,
        "rotate seen secret",
        keys::rotate_seen_secret(operations, caller, &shop, Duration::ZERO, "none")
    );
    denied
}

/// Calls the use cases of the console's pages of providers, like [`denials`].
async fn provider_denials(
    world: &World,
    operations: &Operations,
    caller: &Caller,
    kind: &KnownKind,
    draft: &Draft,
) -> Vec<(&'static str, Permission)> {
    let (app, mut denied) = (world.shop, Vec::new());
    let (any, reason) = (Expected::New, "maintenance");
    call!(denied, "list providers", providers::list(operations, caller, app));
    call!(denied, "find provider", providers::find(operations, caller, app, "main"));
    call!(denied, "preview provider", providers::preview(operations, caller, app, draft));
    call!(denied, "set version", providers::set_version(operations, caller, app, draft, any));
    let version = ("none", 1);
    call!(denied, "switch provider", providers::switch(operations, caller, app, version, true, reason));
    call!(denied, "remove version", providers::remove_version(operations, caller, app, "none", 1));
    call!(denied, "move provider", providers::move_before(operations, caller, app, "none", "main"));
    call!(denied, "secret names", providers::secret_names(operations, caller, app, kind, "none"));
    call!(denied, "provider answers", providers::answers(operations, caller, app, "none"));
    call!(denied, "provider history", providers::history(operations, caller, app, "none"));
    denied
}

/// Calls the use cases of redrives that the dispatcher makes, like [`denials`].
async fn redrive_denials(
    world: &World,
    operations: &Operations,
    caller: &Caller,
) -> Vec<(&'static str, Permission)> {
    let (app, mut denied) = (world.shop, Vec::new());
    let any = ParkedFilter::default();
    let new = NewRedrive {
        app,
        filter: &any,
        previewed_at: NOW,
        per_second: 50,
        expected: 1,
        typed: None,
        is_confirmed: false,
    };
    call!(denied, "preview run", redrives::preview(operations, caller, app, &any, |_| ()));
    call!(denied, "start run", redrives::start(operations, caller, &new));
    let (provider, code) = (Some("main".to_owned()), None);
    let cause = WaitingCause { channel: Channel::Sms, reason: Reason::BreakerOpen, provider, code };
    call!(denied, "release waiting", requests::release(operations, caller, app, &cause));
    call!(denied, "pause run", redrives::change(operations, caller, app, 1, RunState::Paused));
    call!(denied, "resume run", redrives::change(operations, caller, app, 1, RunState::Running));
    call!(denied, "stop run", redrives::change(operations, caller, app, 1, RunState::Stopped));
    call!(denied, "list runs", redrives::list(operations, caller, app, 1));
    call!(denied, "find run", redrives::find(operations, caller, app, 1));
    denied
}

/// Calls the use cases of users, topics and categories, like [`denials`].
async fn template_denials(
    world: &World,
    operations: &Operations,
    caller: &Caller,
) -> Vec<(&'static str, Permission)> {
    let shop = world.store.control().app_by_name_or_id("shop").await.unwrap().unwrap();
    let app = shop.id;
    let template = json!({"identifier": "hi", "channels": {"sms": {"text": "Hi"}}});
    let template = TemplateDocument::read(template, TemplateProfile::All).unwrap();
    let mut denied = Vec::new();
    call!(denied, "list templates", templates::list(operations, caller, app));
    call!(denied, "versions of template", templates::versions(operations, caller, app, "hi", 1));
    call!(denied, "find template", templates::find(operations, caller, app, "hi", None));
    let sample = Sample::default();
    call!(denied, "preview template", templates::preview(operations, caller, &shop, "hi", None, sample));
    let sample = Sample::default();
    call!(denied, "preview draft", templates::preview_draft(operations, caller, &shop, &template, sample));
    call!(denied, "publish template", templates::publish(operations, caller, app, &template, 7));
    call!(denied, "next version", templates::next_version(operations, caller, app, &template));
    call!(denied, "put template", templates::put(operations, caller, app, &template));
    call!(denied, "restore template", templates::restore(operations, caller, app, "hi", 1, None));
    denied
}

/// Calls the use cases of people who look for what happened, like [`denials`].
async fn reading_denials(
    world: &World,
    operations: &Operations,
    caller: &Caller,
) -> Vec<(&'static str, Permission)> {
    let (app, send, mut denied) = (world.shop, SendId(Uuid::nil()), Vec::new());
    let filter = PairFilter::default();
    call!(denied, "overview", Overviews::new(world.store.clone()).of_app(caller, app));
    call!(denied, "page of sends", recent::page(operations, caller, app, (None, None), 1, |_| true));
    call!(denied, "find send", recent::find(operations, caller, app, send));
    call!(denied, "page of pairs", recent::pairs(operations, caller, (app, send), filter, None, 1));
    call!(denied, "send of id", recent::send_of(operations, caller, app, Uuid::nil()));
    let (all, start) = (UserFilter::All, UserFilter::Start("a"));
    call!(denied, "list people", people::list(operations, caller, app, all, None, 1));
    call!(denied, "search people", people::list(operations, caller, app, start, None, 1));
    call!(denied, "find person", people::find(operations, caller, app, "ada"));
    call!(denied, "find numbered person", people::find_numbered(operations, caller, app, UserNumber(1)));
    call!(denied, "page of parked", parked::page(operations, caller, app, None, 1, |_| true));
    let target = MaskedTarget { channel: Channel::Email, place: 0, masked: "a" };
    call!(denied, "reveal target", reveal::reveal(operations, caller, (app, "ada"), target, "ticket 7"));
    call!(denied, "page of audit", audit::page(operations, caller, Some(app), (None, None), 1, |_| true));
    call!(denied, "refused calls", refused_calls::page(operations, caller, app, None, 1, |_| true));
    denied
}

async fn directory_denials(
    world: &World,
    operations: &Operations,
    caller: &Caller,
) -> Vec<(&'static str, Permission)> {
    let (app, mut denied) = (world.shop, Vec::new());
    let no_profile = domain::content::Object::new;
    call!(denied, "create user", users::create(operations, caller, app, "ada", no_profile()));
    call!(denied, "merge user", users::merge(operations, caller, app, "ada", no_profile()));
    call!(denied, "merge users", users::merge_many(operations, caller, app, Vec::new()));
    call!(denied, "find user", users::find(operations, caller, app, "ada"));
    call!(denied, "list users", users::list(operations, caller, app, UserFilter::All, None, 1));
    call!(denied, "erase user", users::erase(operations, caller, app, "ada", 1));
    call!(denied, "put topic", topics::put(operations, caller, app, "news", None, None));
    call!(denied, "create topic", topics::create(operations, caller, app, "sport", "Sport", false));
    call!(denied, "change topic", topics::change(operations, caller, app, "news", None, None));
    call!(denied, "add subscribers", topics::add_subscribers(operations, caller, app, "news", &[]));
    call!(denied, "remove subscribers", topics::remove_subscribers(operations, caller, app, "news", &[]));
    call!(denied, "set channels", topics::set_channels(operations, caller, app, "news", "ada", &None));
    call!(denied, "find topic", topics::find(operations, caller, app, "news"));
    call!(
        denied,
        "change subscriptions",
        topics::change_subscriptions(operations, caller, app, "news", &[], &[])
    );
    call!(denied, "list subscribers", topics::subscribers(operations, caller, app, "news", None, 1));
    call!(denied, "topics of user", topics::of_user(operations, caller, app, "ada", None, 1));
    let seen = (TopicId(99), NOW);
    call!(denied, "find numbered topic", topics::find_numbered(operations, caller, app, TopicId(99)));
    call!(denied, "change seen topic", topics::change_seen(operations, caller, app, seen, None, None));
    call!(denied, "count subscribers", topics::count_subscribers(operations, caller, app, &[TopicId(99)]));
    call!(denied, "delete topic", topics::delete(operations, caller, app, "news"));
    let category = NewCategory { identifier: "orders", name: "Orders", ..NewCategory::default() };
    call!(denied, "create category", categories::create(operations, caller, app, category));
    let values = CategoryValues::default();
    call!(denied, "put category", categories::put(operations, caller, app, "orders", values));
    call!(denied, "find category", categories::find(operations, caller, app, CategoryId(99)));
    let seen = (CategoryId(99), NOW);
    call!(denied, "change category", categories::change(operations, caller, app, seen, values));
    call!(denied, "delete category", categories::delete(operations, caller, app, CategoryId(1)));
    denied
}

#[tokio::test]
async fn a_role_is_refused_what_needs_a_higher_one_and_changes_nothing() {
    let world = world().await;
    for &role in Role::ALL {
        let denied = denials(&world, &world.operations, &world.operator(role)).await;
        assert!(
            denied.iter().all(|(_, permission)| permission.least_role() > Some(role)),
            "{role}: {denied:?}"
        );
        let expected = match role {
            Role::Viewer => 65,
            Role::Support => 57,
            Role::Editor => 48,
            Role::Operator => 9,
            Role::Admin => 0,
        };
        assert_eq!(denied.len(), expected, "{role}: {denied:?}");
        if role == Role::Viewer {
            assert_eq!(world.audit().await.len(), 1, "a viewer changes nothing");
        }
    }
}

#[tokio::test]
async fn callers_of_another_app_and_backends_are_refused() {
    let world = world().await;
    let other = creation::create(&world.operations, &world.admin, "other", PublicAccess::Closed).await;
    let stranger = Caller::backend(other.unwrap().id, std::net::Ipv4Addr::LOCALHOST.into());
    assert_eq!(denials(&world, &world.operations, &stranger).await.len(), 99);
    let hidden = apps::find(&world.operations, &stranger, "shop").await.unwrap_err();
    assert!(matches!(hidden, OperationError::NotFound(Object::App)), "{hidden}");
    let seen = apps::list(&world.operations, &stranger).await.unwrap();
    assert_eq!(seen.iter().map(|app| app.name.as_str()).collect::<Vec<_>>(), ["other"]);
    let found = parked::find(&world.operations, &stranger, Uuid::nil()).await.unwrap_err();
    assert!(matches!(found, OperationError::NotFound(Object::ParkedMessage)), "{found}");

    let denied = denials(&world, &world.operations, &world.backend()).await;
    assert_eq!(denied.len(), 43, "a backend changes only its users, topics and categories: {denied:?}");
    let created = creation::create(&world.operations, &world.backend(), "mine", PublicAccess::Open).await;
    assert!(matches!(created, Err(OperationError::Denied(Permission::ManageApps))));
    let taken = creation::create(&world.operations, &world.admin, "other", PublicAccess::Open).await;
    assert!(matches!(taken, Err(OperationError::Conflict(Conflict::NameTaken))));
}

#[tokio::test]
async fn operators_are_managed_by_administrators_of_all_apps_only() {
    let world = world().await;
    let everywhere = |role| Caller::operator(7, vec![Grant { role, app: None }]);
    let refused = [world.operator(Role::Admin), everywhere(Role::Operator), world.backend()];
    for caller in &refused {
        let mut denied = Vec::new();
        let operations = &world.operations;
        call!(denied, "create", operators::create(operations, caller, "eve@example.com", None, Role::Admin));
        call!(denied, "link", operators::link(operations, caller, "eve@example.com", true));
        call!(denied, "list", operators::list(operations, caller));
        call!(denied, "disable", operators::disable(operations, caller, "eve@example.com", true));
        call!(denied, "enable", operators::disable(operations, caller, "eve@example.com", false));
        call!(denied, "find", operators::find(operations, caller, "eve@example.com"));
        let viewer = (None, Role::Viewer);
        call!(denied, "grant", roles::grant(operations, caller, "eve@example.com", viewer, SeenRole::Any));
        call!(denied, "revoke", roles::revoke(operations, caller, "eve@example.com", None, SeenRole::Any));
        call!(denied, "unlink", operators::unlink(operations, caller, "eve@example.com"));
        assert_eq!(denied.len(), 9, "{denied:?}");
    }
    let admin = everywhere(Role::Admin);
    let create = |email| operators::create(&world.operations, &admin, email, Some(world.shop), Role::Support);
    create("Ada@Example.com").await.unwrap();
    assert!(matches!(create("ada@example.com").await, Err(OperationError::Conflict(Conflict::NameTaken))));
    assert!(matches!(create("ada").await, Err(OperationError::Invalid(_))));
    operators::disable(&world.operations, &admin, "ada@example.com", true).await.unwrap();
    let link = operators::link(&world.operations, &admin, "ada@example.com", true).await;
    assert!(
        matches!(link, Err(OperationError::NotFound(Object::Operator))),
        "a disabled operator gets no link"
    );
    operators::disable(&world.operations, &admin, "ada@example.com", false).await.unwrap();
    operators::link(&world.operations, &admin, "ada@example.com", true).await.unwrap();
    let listed = operators::list(&world.operations, &admin).await.unwrap();
    assert_eq!((listed.len(), &listed[0].grants), (1, &vec![(Some(world.shop), Role::Support)]));
    let filter = AuditFilter { scope: AuditScope::Installation, actor_kind: None, since: None };
    let rows = world.store.database().list_audit(filter, 100).await.unwrap();
    let actions: Vec<_> = rows.into_iter().map(|row| row.action).collect();
    for action in ["operator.create", "operator.disable", "operator.enable", "operator.link"] {
        assert!(actions.iter().any(|known| known == action), "{actions:?}");
    }
}
