//! Rendering of the content that recipients read.

use std::collections::HashSet;

use domain::app_setting::AppSetting;
use domain::content::{Content, EmailContent, PushContent, SmsContent};
use domain::email_layout::{Brand, EmailLayout};
use domain::send::{Recipient, SendRequest, TemplateRef};
use domain::{Actor, Channel, Event, Lane, StreamName};
use serde_json::json;
use store::control::template::NewTemplate;
use testkit::eventually;

use crate::world::{SOON, World, person, send_to};

fn ada() -> Recipient {
    let profile =
        json!({"name": "Ada", "email": "ada@example.com", "phone": "+15005550006", "fcm": {"token": "t"}});
    Recipient { profile: profile.as_object().cloned(), ..person("ada") }
}

impl World {
    pub(crate) async fn template(&self, channels: serde_json::Value) -> TemplateRef {
        let template = NewTemplate {
            identifier: "welcome",
            name: "Welcome",
            category: Some("news"),
            channels: &channels,
            mjml: None,
        };
        self.context.store.control().put_template(self.app, template, &Actor::System).await.unwrap();
        TemplateRef::Identifier("welcome".to_owned())
    }
}

#[tokio::test]
async fn a_plain_send_has_content_for_every_channel() {
    let world = World::start().await;
    for channel in [Channel::Email, Channel::Sms, Channel::MobilePush] {
        world.provider(channel).await;
    }
    let mut send = send_to(vec![ada()]);
    send.content.message = Some("1 < 2\n& \"3\"".to_owned());
    send.content.url = Some("https://example.com".to_owned());
    send.content.data = json!({"order": 7}).as_object().cloned().unwrap();
    let mut wordless = send.clone();
    wordless.content.message = None;
    world.accept(&send).await;
    world.dispatched(Lane::Transactional, 1).await;
    world.accept(&wordless).await;
    world.dispatched(Lane::Transactional, 2).await;

    let contents: Vec<_> = world.inboxes().await.into_iter().map(|(_, _, content)| content).collect();
    assert_eq!(contents, [send.content.clone(), wordless.content.clone()]);
    let mut emails = world.jobs(Channel::Email).await.into_iter();
    let job = emails.next().unwrap();
    assert_eq!((job.target.as_str(), job.attempt), ("ada@example.com", 1));
    let expected = EmailContent {
        subject: "Title".to_owned(),
        text: Some("1 < 2\n& \"3\"".to_owned()),
        layout: Some(Box::new(EmailLayout {
            title: Some("Title".to_owned()),
            url: send.content.url.clone(),
            brand: Brand { name: "shop".to_owned(), ..Brand::default() },
        })),
        ..EmailContent::default()
    };
    assert_eq!(job.content, Content::Email(expected));
    let texts: Vec<_> =
        world.jobs(Channel::Sms).await.into_iter().map(|job| (job.target, job.content)).collect();
    let text = |text: &str| {
        ("+15005550006".to_owned(), Content::Sms(SmsContent { text: text.to_owned(), from: None }))
    };
    assert_eq!(texts, [text("1 < 2\n& \"3\"\nhttps://example.com"), text("Title\nhttps://example.com")]);
    let push = world.jobs(Channel::MobilePush).await.remove(0);
    assert_eq!(push.target, "fcm:t");
    let expected = PushContent {
        title: Some("Title".to_owned()),
        body: send.content.message.clone(),
        icon: None,
        url: send.content.url.clone(),
        data: send.content.data.clone(),
        options: domain::content::Object::new(),
    };
    assert_eq!(push.content, Content::Push(expected));
}

#[tokio::test]
async fn an_app_can_replace_the_layout_of_emails_by_a_template() {
    let world = World::start().await;
    world.provider(Channel::Email).await;
    let html = "<b style=\"color:{{ app.brand.color }}\">{{ app.brand.name }}</b> {{ title }}|{{ message }}|{{ url }}|{{ unsubscribe }}";
    world.template(json!({"email": {"subject": "[{{ app.name }}] {{ title }}", "html": html}})).await;
    let settings = [
        AppSetting::BrandName(Some("The Shop".to_owned())),
        AppSetting::BrandColor(Some("#635bff".parse().unwrap())),
        AppSetting::EmailLayout(Some("welcome".to_owned())),
    ];
    world.context.store.control().set_settings(world.app, &settings, &Actor::System).await.unwrap();
    let mut send = send_to(vec![ada()]);
    send.content.message = Some("<i>now</i>".to_owned());
    send.content.url = Some("shop://orders/7".to_owned());
    // Variables of the layout have precedence over the send's data.
    send.content.data =
        json!({"title": "no", "message": "no", "unsubscribe": "no"}).as_object().cloned().unwrap();
    world.accept(&send).await;
    world.dispatched(Lane::Transactional, 1).await;
    let expected = EmailContent {
        subject: "[shop] Title".to_owned(),
        html: Some("<b style=\"color:#635bff\">The Shop</b> Title|&lt;i&gt;now&lt;&#x2f;i&gt;||".to_owned()),
        unsubscribe_slot: true,
        ..EmailContent::default()
    };
    assert_eq!(world.jobs(Channel::Email).await.remove(0).content, Content::Email(expected));
}

#[tokio::test]
async fn recipient_app_and_category_override_recipient_data_which_overrides_the_sends_data() {
    let world = World::start().await;
    let title = "{{ recipient.identifier }} {{ recipient.name }} {{ app.name }} {{ category.identifier }} {{ who }} {{ what }}";
    let template = world.template(json!({"inApp": {"title": title}})).await;
    let data = |value: serde_json::Value| value.as_object().cloned().unwrap();
    let own = data(json!({"who": "own", "recipient": {"name": "own"}, "app": "own"}));
    let mut send =
        SendRequest { template: Some(template), ..send_to(vec![Recipient { data: own, ..ada() }]) };
    send.content.title = None;
    send.content.data = data(json!({"who": "send", "what": "send", "app": "send", "category": "send"}));
    world.accept(&send).await;
    world.dispatched(Lane::Transactional, 1).await;
    let (_, _, content) = world.inboxes().await.remove(0);
    assert_eq!(content.title.as_deref(), Some("ada Ada shop news own send"));
    assert_eq!((&content.data["who"], &content.data["what"]), (&json!("own"), &json!("send")));
}

#[tokio::test]
async fn deliveries_that_cannot_be_rendered_fail_and_the_others_are_sent() {
    let world = World::start().await;
    for channel in [Channel::Email, Channel::Sms] {
        world.provider(channel).await;
    }
    let channels = json!({
        "inApp": {"title": "{{ recipient.name }}"},
        "email": {"subject": "{{ recipient.name }}"},
        "sms": {"text": "hello"},
    });
    let nameless = Recipient {
        profile: json!({"email": "bob@example.com", "phone": "+15005550007"}).as_object().cloned(),
        ..person("bob")
    };
    let template = Some(world.template(channels).await);
    world.accept(&SendRequest { template, ..send_to(vec![nameless, ada()]) }).await;
    world.dispatched(Lane::Transactional, 1).await;
    assert_eq!(world.inboxes().await.len(), 1);
    let emails: Vec<_> = world.jobs(Channel::Email).await.into_iter().map(|job| job.target).collect();
    assert_eq!(emails, ["ada@example.com"]);
    assert_eq!(world.jobs(Channel::Sms).await.len(), 2);
    let failed = "SELECT count(*) FROM delivery WHERE target = 'bob@example.com' AND status = 'failed'
                  AND reason = 'template_error'";
    assert_eq!(world.count(failed).await, 1);
    let skipped = "SELECT count(*) FROM planned_recipient
                   WHERE identifier = 'bob' AND NOT in_app AND 'inApp:template_error' = ANY(skips)";
    assert_eq!(world.count(skipped).await, 1);
}

#[tokio::test]
async fn a_script_link_for_one_recipient_fails_only_that_recipients_deliveries() {
    let world = World::start().await;
    world.provider(Channel::MobilePush).await;
    let texts = json!({"title": "hello", "url": "{{ link }}"});
    let template = Some(world.template(json!({"inApp": texts, "mobilePush": texts})).await);
    let with_link = |name: &str, link: &str| Recipient {
        data: json!({"link": link}).as_object().cloned().unwrap(),
        profile: json!({"fcm": {"token": name}}).as_object().cloned(),
        ..person(name)
    };
    let people = vec![with_link("bob", "\tjavascript:alert(1)"), with_link("cyd", "https://example.com")];
    world.accept(&SendRequest { template, ..send_to(people) }).await;
    world.dispatched(Lane::Transactional, 1).await;
    assert_eq!(world.inboxes().await.len(), 1);
    let pushed: Vec<_> = world.jobs(Channel::MobilePush).await.into_iter().map(|job| job.target).collect();
    assert_eq!(pushed, ["fcm:cyd"]);
    let failed = "SELECT count(*) FROM delivery WHERE target = 'fcm:bob' AND status = 'failed'
                  AND reason = 'template_error'";
    assert_eq!(world.count(failed).await, 1);
    let skipped = "SELECT count(*) FROM planned_recipient
                   WHERE identifier = 'bob' AND NOT in_app AND 'inApp:template_error' = ANY(skips)";
    assert_eq!(world.count(skipped).await, 1);
}

#[tokio::test]
async fn oversized_content_for_one_recipient_delays_no_other_recipient_and_no_later_chunk() {
    let world = World::start().await;
    world.provider(Channel::Email).await;
    let large = "{{ own }}{{ own }}";
    let channels = json!({
        "inApp": {"title": "hello", "message": large, "url": large},
        "email": {"subject": "hello", "text": large, "html": large},
    });
    // JSON escaping doubles the length of this text.
    let own = json!({"own": "\\".repeat(120_000)}).as_object().cloned().unwrap();
    let mut people: Vec<_> = (0..501).map(|number| person(&format!("user-{number}@example.com"))).collect();
    people[1].data = own;
    let template = Some(world.template(channels).await);
    world.accept(&SendRequest { template, ..send_to(people) }).await;
    world.dispatched(Lane::Transactional, 2).await;
    assert_eq!((world.inboxes().await.len(), world.jobs(Channel::Email).await.len()), (500, 500));
    let failed = "SELECT count(*) FROM delivery WHERE target = 'user-1@example.com' AND status = 'failed'
                  AND reason = 'template_error'";
    assert_eq!(world.count(failed).await, 1);
    let skipped = "SELECT count(*) FROM planned_recipient
                   WHERE recipient_index = 1 AND NOT in_app AND 'inApp:template_error' = ANY(skips)";
    assert_eq!(world.count(skipped).await, 1);
    assert_eq!(world.count("SELECT count(*) FROM message_failure").await, 0);
}

#[tokio::test]
async fn a_chunk_of_many_megabytes_is_published_completely() {
    let world = World::start().await;
    world.provider(Channel::Email).await;
    let text = "{{ recipient.identifier }}{{ filler }}{{ filler }}{{ filler }}{{ filler }}";
    let channels = json!({
        "inApp": {"title": "hello", "message": text},
        "email": {"subject": "hello", "text": text},
    });
    let people = (0..60).map(|number| person(&format!("user-{number}@example.com"))).collect();
    let mut send = SendRequest { template: Some(world.template(channels).await), ..send_to(people) };
    send.content.data = json!({"filler": "x".repeat(50_000)}).as_object().cloned().unwrap();
    world.accept(&send).await;
    world.dispatched(Lane::Transactional, 1).await;
    let users: HashSet<_> = world.inboxes().await.into_iter().map(|(_, user, _)| user).collect();
    let targets: HashSet<_> = world.jobs(Channel::Email).await.into_iter().map(|job| job.target).collect();
    assert_eq!((users.len(), targets.len()), (60, 60));
    let mut held = world.events_in(StreamName::Outcome).await.into_iter();
    assert!(matches!(held.next().unwrap().event, Event::ChunkPlanned(planned) if planned.recipients == 60));
    assert!(held.next().is_none());
    let mut inbox = world.events_in(StreamName::Inbox(0)).await;
    inbox.extend(world.events_in(StreamName::Inbox(1)).await);
    let ids: HashSet<_> = inbox.iter().map(|envelope| envelope.id).collect();
    assert_eq!(ids.len(), inbox.len());
}

#[tokio::test]
async fn a_frozen_chunk_whose_template_no_longer_compiles_fails_without_other_content() {
    let world = World::start().await;
    world.provider(Channel::Email).await;
    let template = world.template(json!({"inApp": {"title": "x"}, "email": {"subject": "x"}})).await;
    let send = SendRequest { template: Some(template), ..send_to(vec![ada()]) };
    let send_id = world.accept(&send).await;
    world.dispatched(Lane::Transactional, 1).await;
    sqlx::query("UPDATE template_version SET channels = '{\"pigeon\": 7}'")
        .execute(&world.pool)
        .await
        .unwrap();
    // The planner caches compiled templates per lane, and the planner of this lane has not compiled the template yet.
    world.accept_as(send_id, &SendRequest { lane: Lane::Bulk, ..send }).await;
    world.dispatched(Lane::Bulk, 1).await;
    assert_eq!((world.inboxes().await.len(), world.jobs(Channel::Email).await.len()), (1, 1));
    assert_eq!(world.last_seq(StreamName::Job(Channel::Email, Lane::Bulk)).await, 0);
    let failed = "SELECT count(*) FROM delivery WHERE status = 'failed' AND reason = 'template_error'";
    assert_eq!(world.count(failed).await, 1);
}

#[tokio::test]
async fn a_send_waits_for_a_template_that_the_database_lacks() {
    for is_frozen in [false, true] {
        let world = World::with(|_| {}).await;
        world.provider(Channel::Email).await;
        let template = world.template(json!({"email": {"subject": "Welcome", "text": "Hello"}})).await;
        let send = SendRequest { template: Some(template), ..send_to(vec![person("bob@example.com")]) };
        let waiting = world.accept(&send).await;
        if is_frozen {
            world.freeze(waiting, &send).await;
        }
        let plain = world.accept(&send_to(vec![person("bob@example.com")])).await;
        let ordered = async || {
            let held = world.events_in(StreamName::Job(Channel::Email, Lane::Transactional)).await;
            held.into_iter().filter_map(|envelope| envelope.send_id).collect::<Vec<_>>()
        };

        sqlx::query("UPDATE template_version SET version = version + 100")
            .execute(&world.pool)
            .await
            .unwrap();
        world.serve();
        eventually(SOON, "the other send is planned", async || (ordered().await == [plain]).then_some(()))
            .await;
        assert_eq!(world.count("SELECT count(*) FROM delivery WHERE status <> 'queued'").await, 0);

        sqlx::query("UPDATE template_version SET version = version - 100")
            .execute(&world.pool)
            .await
            .unwrap();
        world.dispatched(Lane::Transactional, 2).await;
        assert_eq!(ordered().await, [plain, waiting]);
    }
}
