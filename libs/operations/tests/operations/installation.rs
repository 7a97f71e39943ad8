use domain::Role;
use operations::installation::{Installations, Work};
use operations::providers::ProviderTests;
use operations::{Caller, Grant, Object, OperationError, Permission};
use service_kit::Build;
use testkit::eventually;

use crate::system::{SOON, System};

const BUILD: Build = Build { version: "7.8.9", revision: "unknown" };

fn viewer(app: Option<domain::AppId>) -> Caller {
    Caller::operator(7, vec![Grant { role: Role::Viewer, app }])
}

#[tokio::test]
async fn processes_answer_with_their_services_and_backlogs_and_the_missing_ones_are_named() {
    let system = System::start().await;
    let context = &system.installation.context;
    context.report_presence(BUILD);
    system
        .installation
        .run(
            "INSERT INTO provider (app_id, identifier, channel, kind, priority, enabled, settings)
             SELECT id, channel, channel, 'http', 0, channel = 'webPush', '{}'
             FROM app CROSS JOIN unnest('{webPush,sms}'::text[]) AS channel WHERE name = 'shop'",
        )
        .await;
    let (operations, log) = (&system.operations, &context.log);
    let found = eventually(SOON, "the dispatcher has measured its streams", async || {
        let read = Installations::new(operations.clone(), log.clone()).read(&viewer(None)).await.unwrap();
        (read.backlogs.iter().any(|waiting| waiting.work == Work::Timers)).then_some(read)
    })
    .await;
    let [process] = found.processes.as_slice() else { panic!("one process: {found:?}") };
    assert!(process.services.contains("dispatcher") && process.services.contains("inbox"), "{process:?}");
    assert_eq!(process.version, "7.8.9");
    let missing: Vec<_> = found.missing.iter().copied().collect();
    assert_eq!(missing, ["gateway", "web-push"], "no provider for SMS is enabled");
    assert!(found.backlogs.iter().any(|waiting| waiting.work == Work::Planning && waiting.fill.is_some()));
}

#[tokio::test]
async fn only_callers_that_see_every_app_see_the_installation() {
    let system = System::without_services().await;
    let log = system.installation.context.log.clone();
    let installations = Installations::new(system.operations.clone(), log);
    let of_shop = viewer(Some(system.shop.id));
    assert!(matches!(installations.read(&of_shop).await, Err(OperationError::Denied(_))));
    let found = installations.read(&viewer(None)).await.unwrap();
    assert!(found.processes.is_empty() && found.missing.contains("dispatcher"));
}

#[tokio::test]
async fn only_operators_test_providers_and_a_missing_worker_is_a_failed_test() {
    let system = System::without_services().await;
    let (log, app) = (system.installation.context.log.clone(), system.shop.id);
    let tests = ProviderTests::new(system.operations.clone(), log);
    for &role in Role::ALL {
        let caller = Caller::operator(7, vec![Grant { role, app: Some(app) }]);
        let result = tests.test(&caller, app, "main", SOON).await;
        let expected = match result.unwrap_err() {
            OperationError::Denied(permission) => {
                permission == Permission::ManageProviders && role < Role::Operator
            }
            OperationError::NotFound(object) => object == Object::Provider && role >= Role::Operator,
            error => panic!("{role}: {error}"),
        };
        assert!(expected, "{role}");
    }
    system
        .installation
        .run(
            "INSERT INTO provider (app_id, identifier, channel, kind, priority, enabled, settings)
             SELECT id, 'main', 'webPush', 'vapid', 0, false, '{}' FROM app WHERE name = 'shop'",
        )
        .await;
    let operator = Caller::operator(7, vec![Grant { role: Role::Operator, app: None }]);
    let test = tests.test(&operator, app, "main", SOON).await.unwrap();
    assert_eq!((test.channel, test.kind.as_str()), (domain::Channel::WebPush, "vapid"));
    let failed = test.result.unwrap_err();
    assert_eq!(failed.message, "no web-push worker answered; is `tidings run web-push` running?");
    assert_eq!((failed.outcome, failed.code.as_str()), ("retry", "no_worker"));
}

#[tokio::test]
async fn an_app_tests_two_providers_at_once_and_leaves_places_to_others() {
    let system = System::without_services().await;
    let tests = ProviderTests::new(system.operations.clone(), system.installation.context.log.clone());
    let operator = Caller::operator(7, vec![Grant { role: Role::Operator, app: None }]);
    let of = async |app| {
        let result = tests.test(&operator, app, "main", SOON).await;
        match result.unwrap_err() {
            OperationError::NotFound(object) => object == Object::Provider,
            OperationError::Later { .. } => false,
            error => panic!("{error}"),
        }
    };
    let (shop, other) = (system.shop.id, system.other.id);
    // Each test that has a place waits for the lock, so none ends before the third has asked.
    let mut lock = system.installation.pool.begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE provider IN ACCESS EXCLUSIVE MODE").execute(&mut *lock).await.unwrap();
    let (one, two, three, of_other, unlocked) =
        tokio::join!(biased; of(shop), of(shop), of(shop), of(other), lock.rollback());
    unlocked.unwrap();
    assert_eq!((one, two, three, of_other), (true, true, false, true));
    assert!(of(shop).await, "the places are free again");
}
