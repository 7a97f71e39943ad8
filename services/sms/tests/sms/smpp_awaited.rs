//! Tests of receipts that become ready while no worker runs. The next worker must receive them without sending a
//! message.

use std::time::Duration;

use domain::{Actor, AppId, Channel, Outcome};
use serde_json::{Value, json};
use stand_ins::smsc::{SmscSettings, SmscStandIn};
use store::control::provider::{NewProvider, SecretChange};
use testkit::{Installation, eventually};

use crate::fixture::{LIMIT, Line, TO, limits, smpp_settings, smsc_with};

/// An installation with an app.
struct World {
    app: AppId,
    installation: Installation,
}

impl World {
    async fn start() -> World {
        let installation = Installation::start(|config| config.outbound.allow_private = true).await;
        World { app: installation.app("shop").await, installation }
    }

    async fn provider(&self, identifier: &str, settings: &Value) {
        let provider = NewProvider {
            identifier,
            channel: Channel::Sms,
            kind: "smpp",
            priority: 1,
            enabled: true,
            settings,
            secret: SecretChange::Keep,
            max_per_second: None,
        };
        self.installation
            .context
            .store
            .control()
            .put_provider(self.app, provider, &Actor::System)
            .await
            .unwrap();
    }

    async fn awaits_a_receipt(&self) {
        sqlx::query(
            "INSERT INTO awaiting_receipt (app_id, delivery_id, user_number, stream, message)
             VALUES ($1, gen_random_uuid(), 1, 'JOB_SMS_T', 'x')",
        )
        .bind(self.app.0)
        .execute(&self.installation.pool)
        .await
        .unwrap();
    }
}

/// Starts a message centre that will send a receipt over the next session that is bound.
async fn centre_with_a_receipt() -> SmscStandIn {
    let settings = SmscSettings { receipts: false, ..SmscSettings::default() };
    let (server, line) = smsc_with(settings, limits()).await;
    let answer = line.send(TO, "Hello").await;
    let Outcome::Sent { provider_id: Some(id) } = answer.outcome else { panic!("{answer:?}") };
    let Line { sender, tasks, .. } = line;
    drop(sender);
    tasks.stop();
    tasks.finish().await.unwrap();
    assert!(server.report(&id, "DELIVRD", "000"));
    assert_eq!((server.bound(), server.receipts_taken()), (0, 0));
    server
}

#[tokio::test]
async fn a_starting_worker_receives_awaited_receipts() {
    let (server, other) = (centre_with_a_receipt().await, centre_with_a_receipt().await);
    let world = Box::pin(World::start()).await;
    let mut without = smpp_settings(&other);
    without["receipts"] = json!(false);
    world.provider("quiet", &without).await;
    world.provider("broken", &json!({})).await;
    world.provider("main", &smpp_settings(&server)).await;
    world.awaits_a_receipt().await;
    let context = world.installation.context.clone();
    world.installation.context.spawn("worker", async { Box::pin(sms::run(context)).await });
    eventually(LIMIT, "the receipt is confirmed", async || (server.receipts_taken() == 1).then_some(()))
        .await;
    assert_eq!((server.bound(), server.submissions(), server.receipts_left()), (1, 1, 0));
    assert_eq!(other.bound(), 0);
    world.installation.context.tasks.stop();
    eventually(LIMIT, "the session unbinds", async || (server.bound() == 0).then_some(())).await;
}

#[tokio::test]
async fn a_session_is_kept_while_receipts_are_awaited() {
    let limits = sms::Limits { idle: Duration::from_secs(2), ..limits() };
    let (server, mut line) = smsc_with(SmscSettings::default(), limits).await;
    line.provider.settings["enquireLinkSeconds"] = json!(1);
    // Three enquiries take longer than `idle`.
    let listening = async || {
        line.sender.listen(&line.provider).unwrap();
        (server.bound() == 1 && server.enquiries() >= 3).then_some(())
    };
    tokio::select! {
        never = line.sender.reap() => match never {},
        () = eventually(LIMIT, "the session stays bound", listening) => {}
    }
    assert_eq!((server.binds(), server.unbinds()), (1, 0));
}
