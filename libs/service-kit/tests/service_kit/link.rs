use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::{AppId, CategoryId, SendId, UserNumber};
use service_kit::link::{self, Link, Links, Purpose};
use service_kit::{MasterKey, clock};
use sqlx::{Connection as _, PgConnection};
use store::app::{NewApp, NewSecret};
use store::{Settings, Store};
use testkit::Database;

struct World {
    database: Database,
    _folder: tempfile::TempDir,
    store: Store,
    master_key: MasterKey,
    apps: Vec<AppId>,
}

async fn world() -> World {
    let database = Database::create().await;
    let settings = Settings { url: database.url().to_owned(), max_connections: 2 };
    let store = Store::connect(&settings).await.unwrap();
    store.migrate().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let master_key = MasterKey::generate_file(&folder.path().join("key")).unwrap();
    let mut apps = Vec::new();
    for name in ["shop", "bank"] {
        let draft = store.create_app(NewApp { name, api_key: name, development: true }, "test").await;
        let secret = NewSecret { digest: b"digest", sealed: b"sealed" };
        apps.push(draft.unwrap().unwrap().commit(secret).await.unwrap());
    }
    World { database, _folder: folder, store, master_key, apps }
}

impl World {
    /// What a process that has just started knows.
    fn links(&self) -> Links {
        Links::new(self.store.clone(), self.master_key.clone())
    }
}

#[tokio::test]
async fn every_app_gets_one_key_and_keeps_it() {
    let world = world().await;
    let link = Link { app: world.apps[0], user: UserNumber(7), purpose: Purpose::Unsubscribe(CategoryId(3)) };
    let unmade = world.links().sign(&link).await.unwrap_err();
    assert!(unmade.to_string().contains("tidings migrate"), "{unmade}");
    link::create(&world.store, &world.master_key, world.apps[0]).await.unwrap();
    let token = world.links().sign(&link).await.unwrap();
    assert_eq!(link::create_missing(&world.store, &world.master_key).await.unwrap(), 1);
    assert_eq!(link::create_missing(&world.store, &world.master_key).await.unwrap(), 0);
    link::create(&world.store, &world.master_key, world.apps[0]).await.unwrap();
    assert_eq!(world.links().sign(&link).await.unwrap(), token);
}

#[tokio::test]
async fn a_token_stands_for_what_was_signed_and_for_nothing_else() {
    let world = world().await;
    link::create_missing(&world.store, &world.master_key).await.unwrap();
    let links = world.links();
    for purpose in [Purpose::Unsubscribe(CategoryId(i64::MAX)), Purpose::Click(SendId(clock::new_id()))] {
        let link = Link { app: world.apps[0], user: UserNumber(7), purpose };
        let token = links.sign(&link).await.unwrap();
        assert!(token.len() <= 100, "{}", token.len());
        assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{token}");
        assert_eq!(links.verify(&token).await.unwrap(), Some(link));
        assert_eq!(world.links().verify(&token).await.unwrap(), Some(link));

        let bytes = URL_SAFE_NO_PAD.decode(&token).unwrap();
        for place in 0..bytes.len() {
            let mut forged = bytes.clone();
            forged[place] ^= 1;
            let forged = URL_SAFE_NO_PAD.encode(forged);
            assert_eq!(links.verify(&forged).await.unwrap(), None, "byte {place}");
        }
        for end in 0..token.len() {
            assert_eq!(links.verify(&token[..end]).await.unwrap(), None, "{end} characters");
        }
        for longer in [format!("{token}A"), format!("{token}{token}"), "A".repeat(100_000), "ä".into()] {
            assert_eq!(links.verify(&longer).await.unwrap(), None);
        }
        // The same claim for the other app, which has a key of its own.
        let mut moved = bytes;
        moved[1..9].copy_from_slice(&world.apps[1].0.to_be_bytes());
        assert_eq!(links.verify(&URL_SAFE_NO_PAD.encode(moved)).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_made_up_app_is_looked_up_once_in_a_while() {
    let world = world().await;
    link::create_missing(&world.store, &world.master_key).await.unwrap();
    let links = world.links();
    let link = Link { app: world.apps[0], user: UserNumber(7), purpose: Purpose::Unsubscribe(CategoryId(3)) };
    let bytes = URL_SAFE_NO_PAD.decode(links.sign(&link).await.unwrap()).unwrap();
    let naming = |app: i64| {
        let mut moved = bytes.clone();
        moved[1..9].copy_from_slice(&app.to_be_bytes());
        URL_SAFE_NO_PAD.encode(moved)
    };
    assert_eq!(links.verify(&naming(4711)).await.unwrap(), None);

    // Whoever asks the database now gets an error.
    let mut connection = PgConnection::connect(world.database.url()).await.unwrap();
    sqlx::query("DROP TABLE app_link_key").execute(&mut connection).await.unwrap();
    assert_eq!(links.verify(&naming(4711)).await.unwrap(), None);
    assert_eq!(links.clone().verify(&naming(4711)).await.unwrap(), None);
    assert!(links.verify(&naming(4712)).await.is_err());
    assert_eq!(links.verify(&naming(world.apps[0].0)).await.unwrap(), Some(link));
}
