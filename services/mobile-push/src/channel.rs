//! The mobile push channel: calls the provider for a job and turns its response into an answer.

use std::sync::Arc;
use std::time::Duration;

use domain::content::Content;
use domain::{Answer, AppId, Channel, Outcome};
use moka::future::Cache;
use worker::{Call, ChannelSender, Outbound, Provider};

use crate::answers::ours;
use crate::apns::ApnsClient;
use crate::fcm::FcmClient;

/// Idle time after which a provider's client, with its connection and credential, is dropped.
const IDLE: Duration = Duration::from_secs(600);
/// Maximum number of cached clients.
const MAX_CLIENTS: u64 = 10_000;

/// Sends over mobile push. Clones share connections and credentials.
#[derive(Clone)]
pub struct MobilePushSender {
    outbound: Outbound,
    limit: Duration,
    clients: Cache<ProviderVersion, Arc<Client>>,
}

/// Cache key: one version of a provider. Changed settings have a new version and so get a new client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ProviderVersion {
    app: AppId,
    identifier: String,
    version: i64,
}

enum Client {
    Apns(Box<ApnsClient>),
    Fcm(Box<FcmClient>),
}

impl MobilePushSender {
    /// Creates a sender that calls only hosts that `outbound` allows, and takes at most `limit` per attempt.
    #[must_use]
    pub fn new(outbound: Outbound, limit: Duration) -> MobilePushSender {
        let clients = Cache::builder().max_capacity(MAX_CLIENTS).time_to_idle(IDLE).build();
        MobilePushSender { outbound, limit, clients }
    }

    async fn client(&self, provider: &Provider) -> Result<Arc<Client>, Arc<String>> {
        let version = ProviderVersion {
            app: provider.app,
            identifier: provider.identifier.clone(),
            version: provider.version,
        };
        self.clients
            .try_get_with(version, async { Client::open(self.outbound, self.limit, provider).map(Arc::new) })
            .await
    }
}

impl ChannelSender for MobilePushSender {
    const CHANNEL: Channel = Channel::MobilePush;

    async fn send(&self, call: &Call<'_>) -> Answer {
        let Content::Push(content) = &call.job.content else {
            return ours(Outcome::Failed, "content", "the job carries no push message");
        };
        let client = match self.client(call.provider).await {
            Ok(client) => client,
            Err(problem) => return ours(Outcome::PauseProvider, "settings", problem.as_str()),
        };
        match (&*client, service_and_token(&call.job.target)) {
            (Client::Apns(client), Some((ApnsClient::KIND, token))) => {
                Box::pin(client.send(call, token, content)).await
            }
            (Client::Fcm(client), Some((FcmClient::KIND, token))) => {
                Box::pin(client.send(call, token, content)).await
            }
            _ => ours(Outcome::PauseProvider, "target", "the token is of another push service"),
        }
    }

    fn serves(kind: &str, target: &str) -> bool {
        service_and_token(target).is_some_and(|(service, _)| service == kind)
    }
}

impl Client {
    fn open(outbound: Outbound, limit: Duration, provider: &Provider) -> Result<Client, String> {
        match provider.kind.as_str() {
            ApnsClient::KIND => {
                ApnsClient::open(outbound, limit, &provider.settings).map(Box::new).map(Client::Apns)
            }
            FcmClient::KIND => {
                FcmClient::open(outbound, limit, &provider.settings).map(Box::new).map(Client::Fcm)
            }
            other => Err(format!("{other:?} is not a kind of mobile push provider; use apns or fcm")),
        }
    }
}

/// Splits a target such as `fcm:{token}` into service and token. The service has the same name as its provider kind.
fn service_and_token(target: &str) -> Option<(&str, &str)> {
    target.split_once(':')
}
