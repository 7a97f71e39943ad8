//! Pages of the outbox: captured content is hostile, and only the pages' own forms change anything.

use serde_json::{Value, json};
use stand_ins::{StandInSettings, StandIns};
use tempfile::TempDir;

use crate::stand_ins::{codes, talk};

const HOSTILE: &str = "</pre><script>alert(1)</script>\"'&";
const EMAIL: &str = "Message-ID: <1@example.com>\r\nSubject: <script>alert(1)</script>\r\n\
    Content-Type: multipart/mixed; boundary=b\r\n\r\n\
    --b\r\nContent-Type: text/plain\r\n\r\n</pre><script>alert(1)</script>\"'&\r\n\
    --b\r\nContent-Type: text/html\r\n\r\n<p>Hello</p><img src=\"cid:logo\"><script>alert(1)</script>\r\n\
    --b\r\nContent-Type: image/png\r\nContent-ID: <logo>\r\nContent-Transfer-Encoding: base64\r\n\
    Content-Disposition: attachment; filename=\"<b>.png\"\r\n\r\nAAEC\r\n--b--\r\n";

/// Head and body of an answer of the outbox.
struct Answer {
    head: String,
    body: String,
}

impl Answer {
    fn status(&self) -> u16 {
        self.head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    fn header(&self, name: &str) -> Option<&str> {
        let line = self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.map(str::trim)
    }
}

async fn started() -> (StandIns, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    (StandIns::start(&StandInSettings::in_directory(directory.path())).await.unwrap(), directory)
}

async fn call(stand_ins: &StandIns, start: &str, headers: &str, body: &str) -> Answer {
    let url = stand_ins.outbox_url();
    let address = url.strip_prefix("http://").unwrap();
    let request = format!(
        "{start} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    );
    let heard = talk(address.parse().unwrap(), &request).await;
    let (head, body) = heard.split_once("\r\n\r\n").unwrap();
    Answer { head: head.to_owned(), body: body.to_owned() }
}

async fn open(stand_ins: &StandIns, path: &str) -> Answer {
    call(stand_ins, &format!("GET {path}"), "Accept: text/html,*/*;q=0.8\r\n", "").await
}

async fn mail(stand_ins: &StandIns, to: &str) -> Vec<String> {
    let say =
        format!("EHLO c\r\nMAIL FROM:<a@example.com>\r\nRCPT TO:<{to}>\r\nDATA\r\n{EMAIL}.\r\nQUIT\r\n");
    codes(&talk(stand_ins.smtp_address(), &say).await).into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn captured_content_is_text_on_the_page_and_its_html_runs_no_script() {
    let (stand_ins, _directory) = started().await;
    mail(&stand_ins, "b@example.com").await;
    for path in ["/", "/messages", "/messages/1"] {
        let page = open(&stand_ins, path).await;
        assert_eq!(page.status(), 200, "{path}");
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"), "{policy}");
        assert!(!page.body.contains("<script>"), "{path}: {}", page.body);
        assert!(page.body.contains("&lt;script&gt;"), "{path}: {}", page.body);
    }
    let page = open(&stand_ins, "/messages/1").await;
    let shown = HOSTILE.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    assert!(page.body.contains(&shown.replace('"', "&quot;").replace('\'', "&#39;")), "{}", page.body);
    assert!(page.body.contains("<iframe sandbox=\"\" src=\"/messages/1/html\""), "{}", page.body);

    let html = open(&stand_ins, "/messages/1/html").await;
    let policy = html.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"),
        "{policy}"
    );
    assert!(html.body.contains("data:image/png;base64,AAEC"), "{}", html.body);
    let raw = open(&stand_ins, "/messages/1/raw").await;
    assert_eq!(raw.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(raw.header("x-content-type-options"), Some("nosniff"));
    let file = open(&stand_ins, "/messages/1/attachments/0").await;
    assert_eq!((file.status(), file.header("content-disposition")), (200, Some("attachment")));
    for missing in ["/messages/2", "/messages/x", "/messages/1/other", "/messages/1/attachments/9", "/other"]
    {
        assert_eq!(open(&stand_ins, missing).await.status(), 404, "{missing}");
    }
    let program = call(&stand_ins, "GET /messages/1", "Accept: */*\r\n", "").await;
    let capture: Value = serde_json::from_str(&program.body).unwrap();
    assert_eq!((&capture["id"], &capture["subject"]), (&json!("1"), &json!("<script>alert(1)</script>")));
    stand_ins.stop().await;
}

#[tokio::test]
async fn an_ordered_fault_fails_that_many_messages_and_can_be_cancelled() {
    let (stand_ins, _directory) = started().await;
    let order =
        async |form: &str| call(&stand_ins, "POST /faults", "Sec-Fetch-Site: same-origin\r\n", form).await;
    let ordered = order("fault=email-550&times=1&to=b%40example.com").await;
    assert_eq!((ordered.status(), ordered.header("location")), (303, Some("/")));
    assert!(open(&stand_ins, "/").await.body.contains("<strong>1</strong> answer is"));
    assert_eq!(mail(&stand_ins, "other@example.com").await[4..], ["354", "250", "221"], "it is for b only");
    assert_eq!(mail(&stand_ins, "b@example.com").await[3], "550");
    assert_eq!(mail(&stand_ins, "b@example.com").await[3], "250");

    order("fault=email-450&times=10&to=").await;
    assert_eq!(mail(&stand_ins, "b@example.com").await[3], "450");
    call(&stand_ins, "POST /faults/clear", "Sec-Fetch-Site: same-origin\r\n", "").await;
    assert_eq!(mail(&stand_ins, "b@example.com").await[3], "250");
    for wrong in ["fault=other&times=1", "fault=email-450&times=0", "fault=email-450&times=1001", "times=1"] {
        assert_eq!(order(wrong).await.status(), 400, "{wrong}");
    }
    stand_ins.stop().await;
}

#[tokio::test]
async fn pages_of_other_origins_change_nothing() {
    let (stand_ins, _directory) = started().await;
    mail(&stand_ins, "b@example.com").await;
    for (headers, status) in [
        ("Sec-Fetch-Site: cross-site\r\n", 403),
        ("Sec-Fetch-Site: same-site\r\n", 403),
        ("Origin: http://attacker.example\r\n", 403),
        ("Origin: null\r\n", 403),
        ("Sec-Fetch-Site: same-origin\r\n", 303),
        ("", 303),
    ] {
        assert_eq!(open(&stand_ins, "/messages/1").await.status(), 200);
        let path = if headers.is_empty() { "POST /clear" } else { "POST /faults/clear" };
        assert_eq!(call(&stand_ins, path, headers, "").await.status(), status, "{headers}");
    }
    assert_eq!(open(&stand_ins, "/messages/1").await.status(), 404, "it was deleted");
    assert_eq!(call(&stand_ins, "GET /clear", "", "").await.header("allow"), Some("POST"));
    stand_ins.stop().await;
}

#[tokio::test]
async fn a_recipient_is_found_in_every_notation() {
    let (stand_ins, _directory) = started().await;
    mail(&stand_ins, "Ada@example.com").await;
    for to in ["ada@EXAMPLE.com", "%20Ada@example.com", "Ada@example.com"] {
        let list = call(&stand_ins, &format!("GET /messages?to={to}"), "", "").await;
        let found: Value = serde_json::from_str(&list.body).unwrap();
        assert_eq!(found["data"].as_array().unwrap().len(), 1, "{to}");
    }
    let order = "fault=email-550&times=1&to=ADA%40Example.COM";
    call(&stand_ins, "POST /faults", "Sec-Fetch-Site: same-origin\r\n", order).await;
    assert_eq!(mail(&stand_ins, "ada@example.com").await[3], "550");
    stand_ins.stop().await;
}
