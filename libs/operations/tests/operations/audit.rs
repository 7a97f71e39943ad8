//! The audit log.

use domain::app_setting::AppSetting;
use domain::{ActorKind, Role};
use operations::apps::creation::{self, PublicAccess};
use operations::apps::settings;
use operations::{Caller, Grant, OperationError, Permission, audit, users};
use store::database::audit::{AuditFilter, AuditScope};

use crate::world;

#[tokio::test]
async fn rows_are_listed_by_app_and_kind_of_actor() {
    let world = world().await;
    let (operations, shop) = (&world.operations, world.shop);
    let other = creation::create(operations, &world.admin, "other", PublicAccess::Open).await.unwrap().id;
    settings::set(operations, &world.operator(Role::Admin), shop, &[AppSetting::Hmac(true)]).await.unwrap();
    users::create(operations, &world.backend(), shop, "ada", Default::default()).await.unwrap();
    users::erase(operations, &world.backend(), shop, "ada", 1).await.unwrap();
    let listed = async |scope, actor_kind| {
        let filter = AuditFilter { scope, actor_kind, since: None };
        let rows = audit::list(operations, &world.admin, filter, 10).await.unwrap();
        rows.into_iter().map(|row| (row.app, row.action)).collect::<Vec<_>>()
    };
    let row = |app, action: &str| (Some(app), action.to_owned());
    let (erased, set) = (row(shop, "user.erase"), row(shop, "app.set"));
    assert_eq!(listed(AuditScope::App(shop), Some(ActorKind::App)).await, std::slice::from_ref(&erased));
    assert_eq!(listed(AuditScope::App(shop), Some(ActorKind::User)).await, []);
    let all = [erased, set, row(other, "app.create"), row(shop, "app.create")];
    assert_eq!(listed(AuditScope::All, None).await, all);
    assert_eq!(listed(AuditScope::All, Some(ActorKind::Operator)).await, all[1..2]);
    assert_eq!(listed(AuditScope::Installation, None).await, []);
}

#[tokio::test]
async fn rows_beyond_one_app_need_the_role_in_the_installation() {
    let world = world().await;
    let filter = |scope| AuditFilter { scope, actor_kind: None, since: None };
    let everywhere = Caller::operator(7, vec![Grant { role: Role::Admin, app: None }]);
    for scope in [AuditScope::All, AuditScope::Installation] {
        let of_shop = world.operator(Role::Admin);
        let denied = audit::list(&world.operations, &of_shop, filter(scope), 1).await.unwrap_err();
        assert!(matches!(denied, OperationError::Denied(Permission::ReadAuditLog)), "{scope:?}: {denied}");
        audit::list(&world.operations, &everywhere, filter(scope), 1).await.unwrap();
    }
}
