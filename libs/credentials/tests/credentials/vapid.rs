use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credentials::{MasterKey, vapid};
use domain::Actor;
use store::control::app::{NewApp, NewSecret};
use store::{Settings, Store};
use testkit::Database;

/// The browser's public key in the example of RFC 8291, appendix A.
const BROWSER: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";

#[test]
fn only_points_of_the_curve_are_keys() {
    let point = URL_SAFE_NO_PAD.decode(BROWSER).unwrap();
    assert!(vapid::is_on_curve(&point));
    for place in [1, 32, 33, 64] {
        let mut beside = point.clone();
        beside[place] ^= 1;
        assert!(!vapid::is_on_curve(&beside), "byte {place}");
    }
    assert!(!vapid::is_on_curve(&[[4].as_slice(), &[0; 64]].concat()), "infinity");
    assert!(
        !vapid::is_on_curve(&[[4].as_slice(), &[0xff; 64]].concat()),
        "coordinates above the prime of the field"
    );
}

#[tokio::test]
async fn every_app_gets_one_pair_and_keeps_it() {
    let database = Database::with_schema().await;
    let settings = Settings { url: database.url().to_owned(), max_connections: 2 };
    let store = Store::connect(&settings).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let master_key = MasterKey::generate_file(&folder.path().join("key")).unwrap();
    let mut apps = Vec::new();
    for name in ["shop", "bank"] {
        let draft = store
            .control()
            .create_app(NewApp { name, api_key: name, development: true }, &Actor::System)
            .await;
        let secret = NewSecret { digest: b"digest", sealed: b"sealed" };
        apps.push(draft.unwrap().unwrap().commit(secret).await.unwrap());
    }
    vapid::create(&store, &master_key, apps[0]).await.unwrap();
    let key = store.control().vapid_public_key(apps[0]).await.unwrap().unwrap();
    assert_eq!(vapid::create_missing(&store, &master_key).await.unwrap(), 1);
    assert_eq!(vapid::create_missing(&store, &master_key).await.unwrap(), 0);
    assert_eq!(store.control().vapid_public_key(apps[0]).await.unwrap().as_ref(), Some(&key));
    assert_ne!(store.control().vapid_public_key(apps[1]).await.unwrap().as_ref(), Some(&key));
    let point = URL_SAFE_NO_PAD.decode(&key).unwrap();
    assert!(point.len() == 65 && point[0] == 4 && vapid::is_on_curve(&point));
}
