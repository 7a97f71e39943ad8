//! Signing in by an OpenID provider: which operator an identity is, and which roles its groups give.

use domain::{Role, Timestamp};
use operations::operators::provider::{ProviderPerson, ProviderPolicy};
use operations::operators::roles::{self, SeenRole};
use operations::operators::{self, Client, SignInError, SignIns, SignedIn};
use operations::{Caller, Conflict, OperationError};
use secrecy::SecretString;
use service_kit::clock;
use service_kit::config::RoleRule;

use crate::{World, world};

fn person(subject: &str, email: &str, groups: &[&str]) -> ProviderPerson {
    ProviderPerson {
        issuer: "https://id.example.com".to_owned(),
        subject: subject.to_owned(),
        email: email.to_owned(),
        is_email_verified: true,
        authenticated_at: Some(Timestamp::from_millis(1_800_000_000_000)),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
    }
}

fn policy() -> ProviderPolicy {
    let rule = |group: &str, role, app: Option<&str>| RoleRule {
        group: group.to_owned(),
        role,
        app: app.map(str::to_owned),
    };
    let rules = vec![
        rule("staff", Role::Viewer, None),
        rule("ops", Role::Admin, None),
        rule("shop", Role::Support, Some("shop")),
        rule("shop", Role::Editor, Some("none")),
    ];
    ProviderPolicy { allowed_domains: Vec::new(), rules }
}

fn client() -> Client {
    let address = std::net::Ipv4Addr::LOCALHOST.into();
    Client { address: fairness::peer::Peer::of(address), browser: "Firefox on Linux".to_owned() }
}

async fn signed_in(
    world: &World,
    person: &ProviderPerson,
    policy: &ProviderPolicy,
) -> Result<(String, SignedIn), SignInError> {
    let sign_ins = SignIns::new(world.store.clone()).unwrap();
    let token = sign_ins.sign_person_in(person, policy, &client()).await?;
    let operator = sign_ins.of_session(&token).await.unwrap().unwrap();
    Ok((token, operator))
}

fn roles(operator: &SignedIn) -> Vec<(Role, bool)> {
    operator.grants.iter().map(|grant| (grant.role, grant.app.is_some())).collect()
}

#[tokio::test]
async fn groups_give_the_highest_role_at_each_sign_in_beside_those_by_hand() {
    let world = world().await;
    let groups = ["ops", "staff", "shop"];
    let (first, ada) = signed_in(&world, &person("1", "Ada@Example.com", &groups), &policy()).await.unwrap();
    assert_eq!((ada.email.as_str(), ada.by_provider), ("ada@example.com", true));
    assert_eq!(roles(&ada), [(Role::Admin, false), (Role::Support, true)]);
    let by_hand = (Some(world.shop), Role::Editor);
    let granted =
        roles::grant(&world.operations, &ada.caller, "ada@example.com", by_hand, SeenRole::Any).await;
    granted.unwrap();
    let sign_ins = SignIns::new(world.store.clone()).unwrap();
    assert!(sign_ins.of_session(&first).await.unwrap().is_none(), "a new role ends sessions");
    let (second, _) = signed_in(&world, &person("1", "ada@example.com", &groups), &policy()).await.unwrap();
    // The address may change at the provider; the identity stays.
    let (_, ada) = signed_in(&world, &person("1", "a.l@example.com", &["staff"]), &policy()).await.unwrap();
    assert_eq!(ada.email, "ada@example.com");
    assert_eq!(roles(&ada), [(Role::Editor, true), (Role::Viewer, false)]);
    assert!(sign_ins.of_session(&second).await.unwrap().is_none(), "other roles end other sessions");
    let (_, ada) = signed_in(&world, &person("1", "ada@example.com", &[]), &policy()).await.unwrap();
    assert_eq!(roles(&ada), [(Role::Editor, true)]);
    let ops = person("1", "ada@example.com", &["ops"]);
    let (third, ada) = signed_in(&world, &ops, &policy()).await.unwrap();
    assert_eq!(roles(&ada), [(Role::Editor, true), (Role::Admin, false)]);
    let (_, ada) = signed_in(&world, &ops, &ProviderPolicy::default()).await.unwrap();
    assert_eq!(roles(&ada), [(Role::Editor, true)], "without rules, no role by claim is left");
    assert!(sign_ins.of_session(&third).await.unwrap().is_none());
}

#[tokio::test]
async fn roles_by_claim_count_only_in_sessions_by_the_provider_which_set_no_password() {
    let world = world().await;
    let sign_ins = SignIns::new(world.store.clone()).unwrap();
    let known =
        ProviderPerson { authenticated_at: Some(clock::now()), ..person("1", "ada@example.com", &["ops"]) };
    let (session, ada) = signed_in(&world, &known, &policy()).await.unwrap();
    assert_eq!(roles(&ada), [(Role::Admin, false)]);
    let password = |text: &str| SecretString::from(text);
    let new = "vier alte Katzen am Fluss";
    let changed = sign_ins.change_password(&ada, &session, (password(""), password(new)), &client()).await;
    assert!(matches!(changed, Err(SignInError::ByProvider)), "{changed:?}");
    let ignored = sign_ins.sign_in("ada@example.com", password(new), &client()).await;
    assert!(matches!(ignored, Err(SignInError::Wrong)), "{ignored:?}");

    let by_proxy = sign_ins.of_proxy("ada@example.com").await.unwrap().unwrap();
    assert!(roles(&by_proxy).is_empty());
    let code = operators::link(&world.operations, &world.admin, "ada@example.com", false).await.unwrap();
    let by_link = sign_ins.redeem(&code, None, Some(&password(new)), &client()).await.unwrap();
    let by_password = sign_ins.sign_in("ada@example.com", password(new), &client()).await.unwrap();
    for session in [by_link, by_password] {
        let operator = sign_ins.of_session(&session).await.unwrap().unwrap();
        assert_eq!((roles(&operator), operator.by_provider), (Vec::new(), false));
    }
}

#[tokio::test]
async fn only_an_authentication_of_the_last_ten_minutes_confirms_a_step() {
    let world = world().await;
    let sign_ins = SignIns::new(world.store.clone()).unwrap();
    for (seconds, is_recent) in [(-300, true), (-700, false), (30, true), (300, false)] {
        let at = Timestamp::from_millis(clock::now().millis() + seconds * 1_000);
        let known = ProviderPerson { authenticated_at: Some(at), ..person("1", "ada@example.com", &["ops"]) };
        let (session, ada) = signed_in(&world, &known, &policy()).await.unwrap();
        let none = SecretString::from("");
        let confirmed = sign_ins.confirm(&session, &ada.email, none, client().address).await;
        assert_eq!(confirmed.is_ok(), is_recent, "{seconds}: {confirmed:?}");
    }
}

#[tokio::test]
async fn an_identity_belongs_to_the_operator_with_its_address_unless_another_one_does() {
    let world = world().await;
    let admin = Caller::of_command("ada".to_owned());
    let operations = &world.operations;
    operators::create(operations, &admin, "bob@example.com", None, Role::Support).await.unwrap();
    let none = ProviderPolicy::default();
    let (_, bob) = signed_in(&world, &person("7", "bob@example.com", &[]), &none).await.unwrap();
    assert_eq!(roles(&bob), [(Role::Support, false)]);
    let other = signed_in(&world, &person("8", "bob@example.com", &[]), &none).await;
    assert!(matches!(other, Err(SignInError::OtherIdentity)));
    for groups in [&[][..], &["unknown"]] {
        let stranger = signed_in(&world, &person("9", "eve@example.com", groups), &policy()).await;
        assert!(matches!(stranger, Err(SignInError::NotAnOperator)), "{groups:?}");
    }
    let unverified = ProviderPerson { is_email_verified: false, ..person("7", "bob@example.com", &["ops"]) };
    let refused = signed_in(&world, &unverified, &policy()).await;
    assert!(matches!(refused, Err(SignInError::UnverifiedEmail)));
    operators::create(operations, &admin, "kate@example.com", None, Role::Support).await.unwrap();
    let alike = signed_in(&world, &person("10", "\u{212a}ate@example.com", &["ops"]), &policy()).await;
    assert!(matches!(alike, Err(SignInError::NotAscii)));
    let own = ProviderPolicy { allowed_domains: vec!["example.org".to_owned()], ..policy() };
    let refused = signed_in(&world, &person("7", "bob@example.com", &["ops"]), &own).await;
    assert!(matches!(refused, Err(SignInError::ForeignDomain)));
    operators::disable(operations, &admin, "bob@example.com", true).await.unwrap();
    for subject in ["7", "8"] {
        let refused = signed_in(&world, &person(subject, "bob@example.com", &["ops"]), &policy()).await;
        assert!(matches!(refused, Err(SignInError::NotAnOperator)), "{subject}");
    }
}

#[tokio::test]
async fn an_administrator_by_claim_does_not_replace_the_last_one_by_hand() {
    let world = world().await;
    let (operations, admin) = (&world.operations, &world.admin);
    operators::create(operations, admin, "bob@example.com", None, Role::Admin).await.unwrap();
    signed_in(&world, &person("1", "ada@example.com", &["ops"]), &policy()).await.unwrap();
    let refused = operators::disable(operations, admin, "bob@example.com", true).await;
    assert!(matches!(refused, Err(OperationError::Conflict(Conflict::LastAdministrator))));
    let refused = roles::revoke(operations, admin, "bob@example.com", None, SeenRole::Any).await;
    assert!(matches!(refused, Err(OperationError::Conflict(Conflict::LastAdministrator))));
    operators::disable(operations, admin, "ada@example.com", true).await.unwrap();
}
