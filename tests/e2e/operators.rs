//! `tidings operator`: creates operators, and changes their roles.

use crate::installation::Installation;

#[tokio::test]
async fn roles_are_granted_and_revoked_and_the_last_administrator_stays() {
    let installation = Installation::create().await;
    let app = installation.run(&["app", "create", "shop", "--json"]).json()["id"].clone();
    let created = installation.run(&["operator", "create", "ada@example.com", "--admin", "--json"]).json();
    assert!(created["link"].as_str().unwrap().contains("/welcome?code="), "{created}");
    let grant = ["operator", "grant", "ada@example.com", "--role", "support", "--app", "shop"];
    let granted = installation.run(&grant);
    assert_eq!(
        (granted.code, granted.output.trim()),
        (0, "ada@example.com has the role support in app shop.")
    );
    let listed = installation.run(&["operator", "list", "--json"]).json();
    assert_eq!(listed[0]["grants"][0]["role"], "admin");
    assert_eq!(
        (&listed[0]["grants"][1]["role"], &listed[0]["grants"][1]["appId"]),
        (&"support".into(), &app)
    );

    for refused in [
        &["operator", "revoke", "ada@example.com", "--all"][..],
        &["operator", "grant", "ada@example.com", "--role", "viewer", "--all"],
        &["operator", "disable", "ada@example.com"],
    ] {
        let answer = installation.run(refused);
        assert_eq!(answer.code, 1, "{refused:?}");
        assert!(answer.errors.contains("no other enabled operator is an administrator"), "{}", answer.errors);
    }
    let revoke = ["operator", "revoke", "ada@example.com", "--app", "shop"];
    assert_eq!(installation.run(&revoke).code, 0);
    let again = installation.run(&revoke);
    assert_eq!(again.code, 1);
    assert!(again.errors.contains("no operator ada@example.com with a role there"), "{}", again.errors);
    for invalid in [&["operator", "revoke", "ada@example.com"][..], &grant[..5]] {
        assert_eq!(installation.run(invalid).code, 2, "{invalid:?}");
    }
    let rows = installation.run(&["audit", "list", "shop", "--json"]).json();
    let actions: Vec<_> =
        rows.as_array().unwrap().iter().map(|row| row["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["operator.revoke", "operator.grant", "app.create"]);
}
