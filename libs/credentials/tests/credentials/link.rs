use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credentials::MasterKey;
use credentials::link::{self, Link, Links, Purpose};
use domain::{Actor, AppId, CategoryId, SendId, UserNumber};
use service_kit::clock;
use sqlx::{Connection as _, PgConnection};
use store::control::app::{NewApp, NewSecret};
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
    World { database, _folder: folder, store, master_key, apps }
}

impl World {
    /// Creates `Links` with an empty cache, as in a process that has just started.
    fn links(&self) -> Links {
        Links::new(self.store.clone(), self.master_key.clone(), clock::now)
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
    assert_eq!(world.links().verify(&token).await.unwrap(), Some(link), "the key changed");
}

#[tokio::test]
async fn a_token_verifies_only_as_the_link_that_was_signed() {
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
        // Replace the key id in the token with the id of the other app's key.
        let other = links.sign(&Link { app: world.apps[1], ..link }).await.unwrap();
        let mut moved = bytes;
        moved[1..17].copy_from_slice(&URL_SAFE_NO_PAD.decode(other).unwrap()[1..17]);
        assert_eq!(links.verify(&URL_SAFE_NO_PAD.encode(moved)).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_token_reveals_neither_app_nor_user_nor_category() {
    let world = world().await;
    link::create_missing(&world.store, &world.master_key).await.unwrap();
    let (user, category) = (UserNumber(0x0102_0304_0506), CategoryId(0x0A0B_0C0D_0E0F));
    let link = Link { app: world.apps[0], user, purpose: Purpose::Unsubscribe(category) };
    let links = world.links();
    let [token, again] = [links.sign(&link).await.unwrap(), links.sign(&link).await.unwrap()];
    assert_ne!(token, again, "two tokens of one link must differ");
    let bytes = URL_SAFE_NO_PAD.decode(token).unwrap();
    for number in [user.0, category.0] {
        let planted = &number.to_be_bytes()[2..];
        assert!(!bytes.windows(planted.len()).any(|window| window == planted), "{number} is in the token");
    }
    assert!(
        !bytes.windows(8).any(|window| window == world.apps[0].0.to_be_bytes()),
        "the app is in the token"
    );
}

#[tokio::test]
async fn links_expire() {
    let world = world().await;
    link::create_missing(&world.store, &world.master_key).await.unwrap();
    let (links, day) = (world.links(), Duration::from_secs(24 * 3600));
    let (unsubscribe, click) = (Purpose::Unsubscribe(CategoryId(3)), Purpose::Click(SendId(clock::new_id())));
    for (purpose, good_for) in [(unsubscribe, link::UNSUBSCRIBE_FOR), (click, link::CLICK_FOR)] {
        assert!(good_for >= 60 * day);
        let link = Link { app: world.apps[0], user: UserNumber(7), purpose };
        let token = links.sign_at(&link, clock::now() - (good_for - day)).await.unwrap();
        assert_eq!(links.verify(&token).await.unwrap(), Some(link));
        let token = links.sign_at(&link, clock::now() - (good_for + day)).await.unwrap();
        assert_eq!(links.verify(&token).await.unwrap(), None, "{purpose:?}");
    }
}

impl World {
    /// Changes the keys as if an earlier release had created them.
    async fn with_earlier_keys(&self) {
        let mut connection = PgConnection::connect(self.database.url()).await.unwrap();
        sqlx::query("UPDATE app_link_key SET seals = false").execute(&mut connection).await.unwrap();
    }
}

#[tokio::test]
async fn a_rotation_revokes_the_links_of_one_app_after_its_grace() {
    let world = world().await;
    link::create_missing(&world.store, &world.master_key).await.unwrap();
    let [shop, bank] = [world.apps[0], world.apps[1]];
    let (user, category) = (UserNumber(7), CategoryId(3));
    let of = |app| Link { app, user, purpose: Purpose::Unsubscribe(category) };
    let mut tokens = Vec::new();
    for app in [shop, bank] {
        tokens.push((app, world.links().sign(&of(app)).await.unwrap()));
    }
    world.with_earlier_keys().await;
    for app in [shop, bank] {
        tokens.push((app, world.links().sign(&of(app)).await.unwrap()));
    }
    assert!(
        URL_SAFE_NO_PAD.decode(&tokens[2].1).unwrap().starts_with(&[1]),
        "an earlier release can read the token"
    );
    let good = async |app| {
        let links = world.links();
        let mut good = 0;
        for (_, token) in tokens.iter().filter(|(of, _)| *of == app) {
            good += usize::from(links.verify(token).await.unwrap() == Some(of(app)));
        }
        good
    };
    let rotate = async |grace| {
        link::rotate(&world.store, &world.master_key, shop, grace, &Actor::System).await.unwrap().unwrap()
    };
    assert_eq!(rotate(Duration::from_secs(60)).await, 2);
    assert_eq!((good(shop).await, good(bank).await), (2, 2), "links stay valid during the grace period");
    let second = world.links().sign(&of(shop)).await.unwrap();
    assert!(URL_SAFE_NO_PAD.decode(&second).unwrap().starts_with(&[3]), "the token is sealed");
    assert_eq!(rotate(Duration::ZERO).await, 3);
    assert_eq!((good(shop).await, good(bank).await), (0, 2), "only this app's links become invalid");
    assert_eq!(world.links().verify(&second).await.unwrap(), None);
    let third = world.links().sign(&of(shop)).await.unwrap();
    assert_eq!(world.links().verify(&third).await.unwrap(), Some(of(shop)));
    link::create(&world.store, &world.master_key, shop).await.unwrap();
    assert_eq!(world.links().verify(&third).await.unwrap(), Some(of(shop)), "an app that has a key keeps it");
    let nowhere =
        link::rotate(&world.store, &world.master_key, AppId(4711), Duration::ZERO, &Actor::System).await;
    assert_eq!(nowhere.unwrap(), None);
}

#[tokio::test]
async fn an_unknown_key_id_is_queried_once_and_cached() {
    let world = world().await;
    link::create_missing(&world.store, &world.master_key).await.unwrap();
    let links = world.links();
    let link = Link { app: world.apps[0], user: UserNumber(7), purpose: Purpose::Unsubscribe(CategoryId(3)) };
    let bytes = URL_SAFE_NO_PAD.decode(links.sign(&link).await.unwrap()).unwrap();
    let naming = |id: u8| {
        let mut moved = bytes.clone();
        moved[1..17].copy_from_slice(&[id; 16]);
        URL_SAFE_NO_PAD.encode(moved)
    };
    assert_eq!(links.verify(&URL_SAFE_NO_PAD.encode(&bytes)).await.unwrap(), Some(link));
    assert_eq!(links.verify(&naming(47)).await.unwrap(), None);

    // Without this table, every query fails, so a successful call must have used the cache.
    let mut connection = PgConnection::connect(world.database.url()).await.unwrap();
    sqlx::query("DROP TABLE app_link_key").execute(&mut connection).await.unwrap();
    assert_eq!(links.verify(&naming(47)).await.unwrap(), None);
    assert_eq!(links.clone().verify(&naming(47)).await.unwrap(), None);
    assert!(links.verify(&naming(48)).await.is_err());
    assert_eq!(links.verify(&URL_SAFE_NO_PAD.encode(&bytes)).await.unwrap(), Some(link));
}
