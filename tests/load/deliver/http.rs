//! A bare client of a provider's HTTP API: only reqwest, configured as in the workers.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, RequestBuilder};
use stand_ins::outbox::Capture;

use super::skeleton::Reports;
use super::{AT_ONCE, BareClient, spread};

/// Builds the request that repeats a captured message.
pub(super) type RequestFactory = dyn Fn(&Client, &Capture) -> RequestBuilder + Send + Sync;

pub(super) struct Http {
    client: Client,
    again: Arc<RequestFactory>,
    _stand_in: Box<dyn Any>,
}

impl Http {
    pub(super) fn new(
        client: Client,
        stand_in: impl Any,
        again: impl Fn(&Client, &Capture) -> RequestBuilder + Send + Sync + 'static,
    ) -> Http {
        Http { client, again: Arc::new(again), _stand_in: Box::new(stand_in) }
    }
}

impl BareClient for Http {
    fn send<'a>(
        &'a self,
        messages: &'a [Arc<Capture>],
        reports: Reports,
    ) -> Pin<Box<dyn Future<Output = Duration> + 'a>> {
        let clients = vec![self.client.clone(); AT_ONCE];
        Box::pin(async move {
            let send = |client, messages, reports| send_all(client, self.again.clone(), messages, reports);
            spread(clients, messages, &reports, send).await
        })
    }
}

async fn send_all(
    client: Client,
    again: Arc<RequestFactory>,
    messages: Vec<(usize, Arc<Capture>)>,
    reports: Reports,
) {
    for (index, message) in messages {
        let answer = again(&client, &message).send().await.unwrap();
        let (status, body) = (answer.status(), answer.bytes().await.unwrap());
        assert!(status.is_success(), "{status}: {body:?}");
        reports.accepted(index).await;
    }
}

/// Copies these headers of the captured request.
pub(super) fn repeat(mut request: RequestBuilder, message: &Capture, names: &[&str]) -> RequestBuilder {
    for name in names {
        for value in message.summary.headers.get(*name).into_iter().flatten() {
            request = request.header(*name, value);
        }
    }
    request
}
