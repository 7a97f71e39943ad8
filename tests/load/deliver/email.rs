//! Emails over SMTP. The bare client is an SMTP connection of the crate `lettre`, with TCP_NODELAY set.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use domain::content::{Content, EmailContent};
use domain::{Channel, UserNumber};
use lettre::address::Envelope;
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::extension::ClientId;
use serde_json::json;
use stand_ins::outbox::{Capture, Outbox};
use stand_ins::smtp::{SmtpSettings, SmtpStandIn};
use tokio::net::TcpStream;

use super::skeleton::Reports;
use super::{AT_ONCE, BareClient, Subject, spread};
use crate::role::Role;

const PEOPLE: i64 = 1_000;

pub(super) async fn subject() -> Subject {
    let outbox = Outbox::in_memory();
    let stand_in = SmtpStandIn::start(SmtpSettings::default(), outbox.clone()).await.unwrap();
    let settings = json!({
        "host": "127.0.0.1", "port": stand_in.address().port(), "security": "none", "from": "shop@example.com",
    });
    Subject {
        name: "email: SMTP",
        channel: Channel::Email,
        role: Role::Email,
        kind: "smtp",
        settings: (settings, json!({})),
        environment: Vec::new(),
        targets: (1..=PEOPLE).map(|number| (UserNumber(number), format!("u{number}@example.com"))).collect(),
        content: Content::Email(EmailContent {
            subject: "Your order is on its way".to_owned(),
            text: Some("Order 4711 left our house this morning and arrives tomorrow before noon.".to_owned()),
            html: Some(
                "<p>Order <b>4711</b> left our house and arrives tomorrow before noon.</p>".to_owned(),
            ),
            ..EmailContent::default()
        }),
        outbox,
        bare: Box::new(Lettre(stand_in)),
    }
}

struct Lettre(SmtpStandIn);

impl BareClient for Lettre {
    fn send<'a>(
        &'a self,
        messages: &'a [Arc<Capture>],
        reports: Reports,
    ) -> Pin<Box<dyn Future<Output = Duration> + 'a>> {
        Box::pin(async move {
            let mut connections = Vec::new();
            for _ in 0..AT_ONCE {
                connections.push(connect(self.0.address()).await);
            }
            spread(connections, messages, &reports, send_all).await
        })
    }
}

async fn connect(address: SocketAddr) -> AsyncSmtpConnection {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let client = ClientId::Ipv4([127, 0, 0, 1].into());
    AsyncSmtpConnection::connect_with_transport(Box::new(stream), &client).await.unwrap()
}

async fn send_all(
    mut connection: AsyncSmtpConnection,
    messages: Vec<(usize, Arc<Capture>)>,
    reports: Reports,
) {
    for (index, message) in messages {
        let to = message.to.iter().map(|to| to.parse().unwrap()).collect();
        let envelope = Envelope::new(Some(message.from.parse().unwrap()), to).unwrap();
        connection.send(&envelope, &message.raw).await.unwrap();
        reports.accepted(index).await;
    }
}
