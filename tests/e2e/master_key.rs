//! `tidings master-key`: a rotation loses no secret, even if it is interrupted or a service writes at the same time.

use std::time::Duration;

use credentials::MasterKey;
use domain::{AppId, Channel};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use testkit::{Service, eventually};

use crate::directory::Answer;
use crate::installation::Installation;

const SOON: Duration = Duration::from_secs(30);
const NEW_KEY: [(&str, &str); 2] = [
    ("TIDINGS_SECURITY__MASTER_KEY_FILE", "new.key"),
    ("TIDINGS_SECURITY__PREVIOUS_MASTER_KEY_FILE", "master.key"),
];

/// Creates an installation with a record in every sealed table, and a new key next to the old one.
async fn sealed_with_the_old_key() -> Installation {
    let installation = Installation::create().await;
    installation.run(&["app", "create", "shop"]);
    installation.run(&["app", "rotate-secret", "shop"]);
    installation.run(&["app", "signing-key", "create", "shop", "--algorithm", "HS256"]);
    assert_eq!(set_password(&installation, &[], "old-password").code, 0);
    let made = installation.run(&["master-key", "generate", "new.key", "--json"]).json();
    assert_eq!(made["key"].as_str().unwrap().len(), 16);
    installation
}

fn set_password(installation: &Installation, variables: &[(&str, &str)], password: &str) -> Answer {
    let document = json!({
        "identifier": "main", "channel": "email", "kind": "smtp",
        "settings": {
            "host": "mail.example.com", "port": 587, "security": "starttls", "username": "shop",
            "password": password, "from": "shop@example.com",
        },
    });
    installation.run_configured(&["provider", "set", "shop"], variables, &document.to_string())
}

async fn password(installation: &Installation, master_key: &MasterKey) -> String {
    let app = app(installation).await;
    let row = installation.store.control().providers(app, Channel::Email).await.unwrap().remove(0);
    let opened = master_key.open(&format!("provider:{app}:main"), &row.sealed.unwrap()).unwrap();
    let opened: Value = serde_json::from_slice(opened.expose_secret()).unwrap();
    opened["password"].as_str().unwrap().to_owned()
}

async fn app(installation: &Installation) -> AppId {
    installation.store.control().app_by_name_or_id("shop").await.unwrap().unwrap().id
}

fn new_key(installation: &Installation) -> MasterKey {
    MasterKey::load(&installation.path().join("new.key")).unwrap()
}

fn records_left(installation: &Installation) -> u64 {
    let status = installation.run_configured(&["master-key", "status", "--json"], &NEW_KEY, "").json();
    status["left"].as_u64().unwrap()
}

/// Starts `tidings master-key rotate` as a separate process.
fn start_rotation(installation: &Installation) -> Service {
    let path = |name: &str| installation.path().join(name).to_str().unwrap().to_owned();
    let (new, old) = (path("new.key"), path("master.key"));
    let variables = [
        ("TIDINGS_CONFIG", ""),
        ("DATABASE_URL", installation.database_url()),
        (NEW_KEY[0].0, new.as_str()),
        (NEW_KEY[1].0, old.as_str()),
    ];
    Service::start("tidings", &["master-key", "rotate"], &variables).unwrap()
}

async fn await_lock_wait(database: &mut PgConnection) {
    eventually(SOON, "the rotation waits for a row", async || {
        let waiting: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event_type = 'Lock'",
        )
        .fetch_one(&mut *database)
        .await
        .unwrap();
        (waiting > 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_rotation_reseals_every_record_with_the_new_key() {
    let installation = sealed_with_the_old_key().await;
    assert_eq!(records_left(&installation), 4, "a provider, a signing key, a key pair, a link key");
    let status = installation.run_configured(&["master-key", "status"], &NEW_KEY, "");
    assert!(status.output.contains("previous"), "{}", status.output);
    let rotated = installation.run_configured(&["master-key", "rotate", "--json"], &NEW_KEY, "").json();
    let new_key = new_key(&installation);
    assert_eq!((&rotated["resealed"], &rotated["key"]), (&json!(4), &json!(new_key.id())));
    assert_eq!(
        (records_left(&installation), password(&installation, &new_key).await.as_str()),
        (0, "old-password")
    );

    let alone = [NEW_KEY[0]];
    let again = installation.run_configured(&["master-key", "rotate"], &alone, "");
    assert!(again.code == 0 && again.output.contains("0 records"), "{}", again.errors);
    assert_eq!(set_password(&installation, &alone, "new-password").code, 0);
    assert_eq!(password(&installation, &new_key).await, "new-password");
}

#[tokio::test]
async fn records_that_neither_key_opens_are_listed_and_the_others_are_resealed() {
    let installation = sealed_with_the_old_key().await;
    let alone = [NEW_KEY[0]];
    let refused = installation.run_configured(&["master-key", "rotate"], &alone, "");
    assert_eq!(refused.code, 1);
    assert!(refused.errors.contains("provider:") && refused.errors.contains("previous_master_key_file"));
    assert_eq!(records_left(&installation), 4);

    let mut database = PgConnection::connect(installation.database_url()).await.unwrap();
    sqlx::query("UPDATE provider SET sealed = substring(sealed from 1 for 30)")
        .execute(&mut database)
        .await
        .unwrap();
    let refused = installation.run_configured(&["master-key", "rotate"], &NEW_KEY, "");
    assert!(refused.code == 1 && refused.errors.contains("damaged"), "{}", refused.errors);
    assert_eq!(records_left(&installation), 1, "only the damaged record still has the old key");
}

#[tokio::test]
async fn a_killed_rotation_can_be_continued() {
    let installation = sealed_with_the_old_key().await;
    let mut database = PgConnection::connect(installation.database_url()).await.unwrap();
    let mut watcher = PgConnection::connect(installation.database_url()).await.unwrap();
    let mut held = database.begin().await.unwrap();
    sqlx::query("SELECT FROM signing_key FOR UPDATE").execute(&mut *held).await.unwrap();
    let mut rotation = start_rotation(&installation);
    await_lock_wait(&mut watcher).await;
    rotation.kill();
    held.rollback().await.unwrap();
    let still = records_left(&installation);
    assert!((1..4).contains(&still), "some records are resealed and some are not: {still} left");

    let again = installation.run_configured(&["master-key", "rotate"], &NEW_KEY, "");
    assert_eq!((again.code, records_left(&installation)), (0, 0), "{}", again.errors);
    assert_eq!(password(&installation, &new_key(&installation)).await, "old-password");
}

#[tokio::test]
async fn a_secret_set_during_a_rotation_is_not_lost() {
    let installation = sealed_with_the_old_key().await;
    let app = app(&installation).await;
    let mut database = PgConnection::connect(installation.database_url()).await.unwrap();
    let mut watcher = PgConnection::connect(installation.database_url()).await.unwrap();
    // A process that has only the old key sets a password after the rotation has read the previous password.
    let mut set = database.begin().await.unwrap();
    let sealed = installation
        .master_key
        .seal(&format!("provider:{app}:main"), br#"{"password":"meanwhile"}"#)
        .unwrap();
    sqlx::query("UPDATE provider SET sealed = $1, version = version + 1")
        .bind(&sealed)
        .execute(&mut *set)
        .await
        .unwrap();
    let mut rotation = start_rotation(&installation);
    await_lock_wait(&mut watcher).await;
    set.commit().await.unwrap();
    let ended = eventually(SOON, "the rotation has ended", async || rotation.ended().unwrap()).await;
    assert!(ended.success());
    assert_eq!(password(&installation, &new_key(&installation)).await, "meanwhile");
    assert_eq!(records_left(&installation), 0);
}

#[tokio::test]
async fn the_previous_key_is_reported_as_needed_while_any_record_uses_it() {
    let installation = sealed_with_the_old_key().await;
    let mut database = PgConnection::connect(installation.database_url()).await.unwrap();
    let mut watcher = PgConnection::connect(installation.database_url()).await.unwrap();
    let sealed: Vec<u8> =
        sqlx::query_scalar("SELECT sealed FROM app_link_key").fetch_one(&mut watcher).await.unwrap();
    let mut held = database.begin().await.unwrap();
    sqlx::query("SELECT FROM signing_key FOR UPDATE").execute(&mut *held).await.unwrap();
    let mut rotation = start_rotation(&installation);
    await_lock_wait(&mut watcher).await;
    // A process that has only the old key writes to a table that the rotation has already finished.
    sqlx::query("UPDATE app_link_key SET sealed = $1").bind(sealed).execute(&mut watcher).await.unwrap();
    held.rollback().await.unwrap();
    let ended = eventually(SOON, "the rotation has ended", async || rotation.ended().unwrap()).await;
    assert_eq!((ended.code(), records_left(&installation)), (Some(1), 1));

    let again = installation.run_configured(&["master-key", "rotate"], &NEW_KEY, "");
    assert_eq!((again.code, records_left(&installation)), (0, 0), "{}", again.errors);
    assert!(again.output.contains("1 records were resealed") && again.output.contains("no longer needed"));
}
