use std::time::Duration;

use domain::{ActorKind, AppId, Role};
use operations::apps::creation::{self, PublicAccess};
use operations::tokens::{self, CreatedToken, LIFETIMES, NewToken};
use operations::{Caller, Conflict, Grant, Object, OperationError, Permission};
use secrecy::ExposeSecret;

use crate::{World, world};

const DAY: Duration = Duration::from_secs(86_400);

fn admin(app: Option<AppId>) -> Caller {
    Caller::operator(7, vec![Grant { role: Role::Admin, app }])
}

async fn create(
    world: &World,
    caller: &Caller,
    name: &str,
    role: Role,
    app: Option<AppId>,
) -> Result<CreatedToken, OperationError> {
    tokens::create(&world.operations, caller, NewToken { name, role, app, lifetime: DAY }).await
}

#[tokio::test]
async fn a_token_has_its_role_in_its_app_until_it_is_revoked_or_expires() {
    let world = world().await;
    let created =
        create(&world, &admin(Some(world.shop)), "ci", Role::Editor, Some(world.shop)).await.unwrap();
    let text = created.text.expose_secret();
    assert!(text.starts_with("tdga_") && text.len() == 48, "{text}");
    let found = tokens::caller(&world.operations, text).await.unwrap().unwrap();
    assert!(found.caller.may(Permission::EditTemplates, world.shop).is_ok());
    assert!(found.caller.may(Permission::ManageProviders, world.shop).is_err());
    assert!(found.caller.may(Permission::View, None).is_err());
    let (first, last) = text.split_at(text.len() - 1);
    for wrong in
        ["", "tdga_", first, &format!("{first}{}", if last == "A" { "B" } else { "A" }), &format!(" {text}")]
    {
        assert!(tokens::caller(&world.operations, wrong).await.unwrap().is_none(), "{wrong}");
    }
    world.run("UPDATE admin_token SET expires_at = now()").await;
    assert!(tokens::caller(&world.operations, text).await.unwrap().is_none(), "it has expired");
    world.run("UPDATE admin_token SET expires_at = now() + interval '1 hour'").await;
    tokens::revoke(&world.operations, &admin(None), "ci").await.unwrap();
    assert!(tokens::caller(&world.operations, text).await.unwrap().is_none(), "it is revoked");
    let again = tokens::revoke(&world.operations, &admin(None), "ci").await;
    assert!(matches!(again, Err(OperationError::NotFound(Object::Token))));
    let listed = tokens::list(&world.operations, &admin(Some(world.shop)), Some(world.shop)).await.unwrap();
    assert_eq!((listed.len(), listed[0].created_by.as_str()), (1, "operator:7"));
    assert!(listed[0].seen_at.is_some() && listed[0].revoked_at.is_some());
    let rows = world.audit().await;
    assert_eq!(rows[0].action, "token.revoke");
    assert_eq!((rows[1].action.as_str(), rows[1].subject.as_str()), ("token.create", "ci"));
    assert!(!format!("{rows:?}").contains(text), "the audit log has no token");
}

#[tokio::test]
async fn a_token_acts_under_its_own_name_and_creates_no_token_above_its_role() {
    let world = world().await;
    let created = create(&world, &admin(None), "terraform", Role::Admin, Some(world.shop)).await.unwrap();
    let token =
        tokens::caller(&world.operations, created.text.expose_secret()).await.unwrap().unwrap().caller;
    create(&world, &token, "second", Role::Admin, Some(world.shop)).await.unwrap();
    let rows = world.audit().await;
    assert_eq!((rows[0].actor.as_str(), rows[0].actor_kind), ("token:terraform", Some(ActorKind::Token)));
    let everywhere = create(&world, &token, "third", Role::Viewer, None).await;
    assert!(matches!(everywhere, Err(OperationError::Denied(Permission::ManageTokens))));
    let mixed = Caller::operator(
        8,
        vec![Grant { role: Role::Admin, app: Some(world.shop) }, Grant { role: Role::Operator, app: None }],
    );
    assert!(create(&world, &mixed, "fourth", Role::Viewer, None).await.is_err());
    for role in [Role::Viewer, Role::Support, Role::Editor, Role::Operator] {
        let refused = create(&world, &world.operator(role), "fifth", Role::Viewer, Some(world.shop)).await;
        assert!(matches!(refused, Err(OperationError::Denied(Permission::ManageTokens))), "{role}");
        let refused = tokens::revoke(&world.operations, &world.operator(role), "terraform").await;
        assert!(matches!(refused, Err(OperationError::Denied(Permission::ManageTokens))), "{role}");
        assert!(tokens::list(&world.operations, &world.operator(role), Some(world.shop)).await.is_err());
    }
}

#[tokio::test]
async fn tokens_of_another_app_are_hidden_and_names_stay_taken() {
    let world = world().await;
    let bank =
        creation::create(&world.operations, &world.admin, "bank", PublicAccess::Closed).await.unwrap().id;
    create(&world, &world.admin, "of-bank", Role::Viewer, Some(bank)).await.unwrap();
    let hidden = tokens::revoke(&world.operations, &admin(Some(world.shop)), "of-bank").await;
    assert!(matches!(hidden, Err(OperationError::NotFound(Object::Token))));
    tokens::revoke(&world.operations, &admin(Some(bank)), "of-bank").await.unwrap();
    let taken = create(&world, &world.admin, "of-bank", Role::Viewer, None).await;
    assert!(matches!(taken, Err(OperationError::Conflict(Conflict::NameTaken))));
    for (name, lifetime) in [("", DAY), ("a\nb", DAY), ("short", Duration::ZERO), ("long", LIFETIMES.2 * 2)] {
        let new = NewToken { name, role: Role::Viewer, app: None, lifetime };
        let refused = tokens::create(&world.operations, &world.admin, new).await;
        assert!(matches!(refused, Err(OperationError::Invalid(_))), "{name:?}");
    }
    assert!(tokens::list(&world.operations, &admin(Some(world.shop)), None).await.is_err());
}
