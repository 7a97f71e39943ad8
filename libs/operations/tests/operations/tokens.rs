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

/// Creates the operators 7 and 8, administrators of all apps.
const ADMINS: &str = "INSERT INTO operator (id, email) OVERRIDING SYSTEM VALUE
    VALUES (7, 'ada@example.com'), (8, 'bob@example.com');
    INSERT INTO operator_grant (operator_id, role) SELECT id, 'admin' FROM operator";

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
    world.run(ADMINS).await;
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
    world.run(ADMINS).await;
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

/// Returns the highest role of a token in the app `shop`; None if the token is refused.
async fn role(world: &World, token: &CreatedToken) -> Option<Role> {
    let found = tokens::caller(&world.operations, token.text.expose_secret()).await.unwrap()?;
    Role::ALL.iter().copied().filter(|&role| found.caller.has_role(role, Some(world.shop))).max()
}

#[tokio::test]
async fn a_token_has_no_role_above_those_that_its_creator_has_now() {
    let world = world().await;
    world.run(ADMINS).await;
    let shop = Some(world.shop);
    let own = create(&world, &admin(None), "own", Role::Operator, shop).await.unwrap();
    let parent = create(&world, &admin(None), "parent", Role::Admin, None).await.unwrap();
    let caller =
        tokens::caller(&world.operations, parent.text.expose_secret()).await.unwrap().unwrap().caller;
    let child = create(&world, &caller, "child", Role::Admin, None).await.unwrap();
    let command = create(&world, &world.admin, "command", Role::Admin, None).await.unwrap();
    let expected = [Role::Operator, Role::Admin, Role::Admin];
    for (change, expected) in [
        ("SELECT", expected.map(Some)),
        // A program may revoke its token after it has created the next one.
        (
            "UPDATE admin_token SET revoked_at = now() WHERE name = 'parent'",
            [Some(Role::Operator), None, Some(Role::Admin)],
        ),
        ("UPDATE admin_token SET revoked_at = NULL", expected.map(Some)),
        ("UPDATE operator_grant SET role = 'support'", [Some(Role::Support); 3]),
        ("UPDATE operator_grant SET app_id = (SELECT id FROM app)", [Some(Role::Support), None, None]),
        ("UPDATE operator_grant SET app_id = NULL, role = 'admin'", expected.map(Some)),
        ("UPDATE operator SET disabled_at = now() WHERE id = 7", [None; 3]),
        ("UPDATE operator SET disabled_at = NULL", expected.map(Some)),
        ("DELETE FROM operator_grant WHERE operator_id = 7", [None; 3]),
    ] {
        world.run(change).await;
        let now = [role(&world, &own).await, role(&world, &parent).await, role(&world, &child).await];
        assert_eq!(now, expected, "{change}");
        assert_eq!(role(&world, &command).await, Some(Role::Admin), "a command has every right");
    }
}
