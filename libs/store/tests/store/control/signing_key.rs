//! Signing keys: an app can have several keys, up to a limit, and a revoked key is removed at once.

use domain::{Actor, AppId, SigningAlgorithm};
use sqlx::Row;
use store::control::signing_key::{MAX_SIGNING_KEYS, NewSigningKey, SigningKey, Verifier};

use crate::{Fixture, fixture};

async fn create(fixture: &Fixture, app: AppId, kid: &str, verifier: &Verifier) -> bool {
    let algorithm = match verifier {
        Verifier::PublicKey(_) => SigningAlgorithm::Es256,
        Verifier::Sealed(_) => SigningAlgorithm::Hs256,
    };
    let key = NewSigningKey { kid, algorithm, verifier };
    fixture.store.control().create_signing_key(app, key, &Actor::Cli("ada".to_owned())).await.unwrap()
}

async fn keys(fixture: &Fixture, app: AppId) -> Vec<SigningKey> {
    fixture.store.control().app_by_name_or_id(&app.to_string()).await.unwrap().unwrap().signing_keys
}

#[tokio::test]
async fn keys_are_read_as_stored_until_they_are_revoked() {
    let fixture = fixture().await;
    let (shop, bank) = (fixture.app("shop").await, fixture.app("bank").await);
    assert_eq!(keys(&fixture, shop).await, []);
    let public = Verifier::PublicKey("-----BEGIN PUBLIC KEY-----".to_owned());
    let sealed = Verifier::Sealed(b"sealed".to_vec());
    assert!(create(&fixture, shop, "one", &public).await);
    assert!(create(&fixture, shop, "two", &sealed).await);
    assert!(create(&fixture, bank, "one", &sealed).await, "a kid is unique only within its app");

    let stored = keys(&fixture, shop).await;
    let expected = [("one", SigningAlgorithm::Es256, &public), ("two", SigningAlgorithm::Hs256, &sealed)];
    let stored: Vec<_> = stored.iter().map(|key| (key.kid.as_str(), key.algorithm, &key.verifier)).collect();
    assert_eq!(stored, expected);
    let twice = NewSigningKey { kid: "one", algorithm: SigningAlgorithm::Hs256, verifier: &sealed };
    assert!(fixture.store.control().create_signing_key(shop, twice, &Actor::System).await.is_err());

    assert!(
        fixture.store.control().revoke_signing_key(shop, "one", &Actor::Cli("ada".to_owned())).await.unwrap()
    );
    assert!(
        !fixture
            .store
            .control()
            .revoke_signing_key(shop, "one", &Actor::Cli("ada".to_owned()))
            .await
            .unwrap()
    );
    assert_eq!(keys(&fixture, shop).await.len(), 1);
    assert_eq!(keys(&fixture, bank).await.len(), 1);

    let audit = "SELECT action, subject FROM audit WHERE actor = 'cli:ada' AND app_id = 1 ORDER BY id";
    let rows = sqlx::query(audit).fetch_all(&fixture.pool).await.unwrap();
    let rows: Vec<(&str, &str)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let (created, revoked) = ("app.signing-key.create", "app.signing-key.revoke");
    assert_eq!(rows, [(created, "one"), (created, "two"), (revoked, "one")]);
}

#[tokio::test]
async fn concurrent_creations_stay_within_the_limit() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let sealed = Verifier::Sealed(b"sealed".to_vec());
    for number in 1..MAX_SIGNING_KEYS {
        assert!(create(&fixture, app, &number.to_string(), &sealed).await);
    }
    let (a, b, c) = tokio::join!(
        create(&fixture, app, "a", &sealed),
        create(&fixture, app, "b", &sealed),
        create(&fixture, app, "c", &sealed),
    );
    assert_eq!([a, b, c].iter().filter(|created| **created).count(), 1);
    assert_eq!(keys(&fixture, app).await.len() as i64, MAX_SIGNING_KEYS);
}
