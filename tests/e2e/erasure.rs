//! After an erasure, no table and no log file contains personal data of the user.

use std::path::Path;
use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use testkit::eventually;

use crate::directory::Directory;
use crate::running::RunningProcess;

const SEEN_WITHIN: Duration = Duration::from_secs(30);
const USER: &str = "canary-person";
const ADDRESS: &str = "canary.address@example.com";
/// Personal data of the user that the test sends.
const CANARIES: [&str; 9] = [
    USER,
    ADDRESS,
    "+4915199887766",
    "Canary Name",
    "canary-push-token",
    "canary-device",
    "canary title",
    "canary message",
    "canary-data",
];

/// Lists the tables of the database with a row that contains `canary`, as text or in bytes.
async fn tables_with(database: &mut PgConnection, canary: &str) -> Vec<String> {
    let tables = "SELECT quote_ident(table_name) FROM information_schema.tables
                  WHERE table_schema = 'public' AND table_type = 'BASE TABLE'";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut *database).await.unwrap();
    assert!(tables.len() > 15, "{tables:?}");
    let mut found = Vec::new();
    for table in tables {
        let rows = format!(
            "SELECT count(*) FROM {table} AS t
             WHERE strpos(t::text, $1) > 0 OR strpos(t::text, encode(convert_to($1, 'UTF8'), 'hex')) > 0"
        );
        let rows: i64 =
            sqlx::query_scalar(AssertSqlSafe(rows)).bind(canary).fetch_one(&mut *database).await.unwrap();
        if rows > 0 {
            found.push(table);
        }
    }
    found
}

/// Lists all log files of servers below a directory.
fn log_files(directory: &Path) -> Vec<(String, String)> {
    let mut logs = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            logs.extend(log_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "log") {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            logs.push((path.display().to_string(), text));
        }
    }
    logs
}

/// Makes calls that store every canary, in all places where Tidings stores such data.
async fn plant(running: &RunningProcess) {
    let content = json!({"title": CANARIES[6], "message": CANARIES[7]});
    let send = |recipient, send_at| {
        let data = json!({"secret": CANARIES[8]});
        json!({"notification": content, "sendTo": {"recipients": [recipient]}, "data": data, "sendAt": send_at})
    };
    let profile = json!({
        "identifier": USER, "email": ADDRESS, "phoneNumber": CANARIES[2], "name": CANARIES[3],
        "fcm": {"token": CANARIES[4]},
    });
    // Three sends: to an unknown user, to a user with a profile, and scheduled for tomorrow.
    for body in [
        send(json!(USER), json!(null)),
        send(profile.clone(), json!(null)),
        send(profile, json!(service_kit::clock::now() + Duration::from_secs(24 * 60 * 60))),
    ] {
        let (status, receipt) = running.call(Method::POST, "/notifications", Some(&body)).await;
        assert_eq!(status, 202, "{receipt}");
        let path = format!("/requests/{}", receipt["requestId"].as_str().unwrap());
        eventually(SEEN_WITHIN, "the send is completed or scheduled", async || {
            let (_, request) = running.call(Method::GET, &path, None).await;
            ["completed", "scheduled"].iter().any(|status| request["status"] == *status).then_some(())
        })
        .await;
    }
    let connect = running.request(Method::POST, "/sdk/connect").header("X-SERVICE-USER-ID", USER);
    let connect = connect.header("X-SERVICE-DEVICE-ID", CANARIES[5]);
    let answer = connect.json(&json!({"deviceType": "android", "pushToken": "canary-push-token-2"}));
    assert_eq!(answer.send().await.unwrap().status(), 200);
    assert_eq!(running.mails(ADDRESS).await.len(), 1);
    // The requests are completed as soon as the items are planned.
    eventually(SEEN_WITHIN, "the inbox shows one item", async || {
        let (status, inbox) = running.get_as(USER, "/notifications").await;
        assert_eq!(status, 200, "{inbox}");
        (inbox["unreadCount"] == 1).then_some(())
    })
    .await;
}

/// Waits for both passes of the erasure. Skips the wait of 15 minutes before the second.
async fn wait_for_both_passes(database: &mut PgConnection) {
    let count = async |database: &mut PgConnection, condition: &str| -> i64 {
        let statement = format!("SELECT count(*) FROM erased WHERE {condition}");
        sqlx::query_scalar(AssertSqlSafe(statement)).fetch_one(database).await.unwrap()
    };
    eventually(SEEN_WITHIN, "the first pass is done", async || {
        (count(database, "next_pass_at > now() + interval '10 minutes'").await == 1).then_some(())
    })
    .await;
    let sooner = "UPDATE erased SET erased_at = erased_at - interval '1 hour', next_pass_at = now()";
    sqlx::query(sooner).execute(&mut *database).await.unwrap();
    eventually(SEEN_WITHIN, "the last pass is done", async || {
        (count(database, "done_at IS NOT NULL").await == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn no_data_of_an_erased_user_remains() {
    let directory = Directory::new();
    let data = directory.path().join("data");
    let mut running = RunningProcess::start_with(&data, &[("TIDINGS_LOG__LEVEL", "debug")]).await;
    let mut database = PgConnection::connect(running.dev("databaseUrl")).await.unwrap();
    plant(&running).await;
    for canary in CANARIES {
        assert_ne!(
            tables_with(&mut database, canary).await,
            [""; 0],
            "{canary} was not stored before the erasure"
        );
    }

    let (status, answer) = running.call(Method::DELETE, &format!("/users/{USER}"), None).await;
    assert_eq!(status, 202, "{answer}");
    wait_for_both_passes(&mut database).await;
    for canary in CANARIES {
        assert_eq!(tables_with(&mut database, canary).await, [""; 0], "a table contains {canary}");
    }
    let (status, inbox) = running.get_as(USER, "/notifications").await;
    assert_eq!((status, &inbox["pagination"]["totalCount"]), (200, &json!(0)));
    database.close().await.unwrap();
    assert_eq!(running.stop().await, 0);
    let mut logs = log_files(&data);
    assert!(!logs.is_empty());
    logs.push(("standard error".to_owned(), running.log()));
    for (name, log) in logs {
        for canary in CANARIES {
            assert!(!log.contains(canary), "{canary} is in {name}");
        }
    }
}
