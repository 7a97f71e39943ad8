//! A stand-in for the mail server of an app's provider, and the worker that sends to it.

use std::collections::BTreeSet;

use domain::{Actor, Channel};
use serde_json::json;
use stand_ins::outbox::Outbox;
use stand_ins::smtp::{SmtpSettings, SmtpStandIn};
use store::control::provider::{NewProvider, SecretChange};
use worker::ProviderKind as _;

use crate::service::{App, Service};

pub(crate) struct Mailbox {
    pub(crate) server: SmtpStandIn,
}

impl Mailbox {
    /// Starts the server, configures it as the app's provider `main`, and starts the email worker.
    pub(crate) async fn start(service: &Service, app: &App) -> Mailbox {
        let server = SmtpStandIn::start(SmtpSettings::default(), Outbox::in_memory()).await.unwrap();
        let settings = json!({
            "host": "127.0.0.1", "port": server.address().port(), "security": "none", "from": "news@example.com",
        });
        let provider = NewProvider {
            identifier: "main",
            channel: Channel::Email,
            kind: email::smtp::Smtp::NAME,
            priority: 1,
            enabled: true,
            settings: &settings,
            secret: SecretChange::Remove,
            max_per_second: None,
        };
        service.context.store.control().put_provider(app.id, provider, &Actor::System).await.unwrap();
        service.context.serve("email", email::run);
        Mailbox { server }
    }

    /// Returns the recipients of all messages. Panics if a recipient got more than one message.
    pub(crate) fn recipients(&self) -> BTreeSet<String> {
        let captures = self.server.outbox().captures();
        let to: BTreeSet<_> = captures.iter().flat_map(|capture| capture.to.clone()).collect();
        assert_eq!(to.len(), captures.len(), "a recipient got a message twice");
        to
    }
}
