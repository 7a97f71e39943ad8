//! The page of a send, and its explanation.

use domain::Role;

use crate::access::{EVE, filled};
use crate::changes::SEND;

#[tokio::test(flavor = "multi_thread")]
async fn a_send_names_each_person_once_and_its_explanation_uses_the_words_of_the_pages() {
    let (console, ..) = filled().await;
    for statement in EVE {
        console.installation.run(statement).await;
    }
    for statement in [
        "UPDATE planned_recipient SET skips = ARRAY['webPush:no_address']",
        "INSERT INTO plan (app_id, send_id, turn, planned_at)
         SELECT app_id, send_id, turn, now() FROM planned_recipient",
    ] {
        console.installation.run(statement).await;
    }
    let session = console.operator(Role::Support, None).await;
    let send = console.page(&format!("/apps/shop/sends/{SEND}"), &session).await;
    assert_eq!(
        send.matches("<tr class=\"same\">").count(),
        2,
        "email, inbox and web push of one person: {send}"
    );
    assert!(send.contains("<title>Order shipped · shop · Tidings</title>"), "{send}");
    let explained = console.page(&format!("/apps/shop/sends/{SEND}/explain?recipient=0"), &session).await;
    for text in ["<b>Planned</b>", "no Web push (no address)", "Web push: "] {
        assert!(explained.contains(text), "{text}: {explained}");
    }
    assert!(!explained.contains("webPush no_address"), "{explained}");
    assert!(console.page("/apps/shop", &session).await.contains("Latest failures"));
}
