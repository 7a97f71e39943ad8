//! Calls by which an app changes its mind.

use std::time::Duration;

use reqwest::Method;
use testkit::eventually;

use crate::api::Api;

const SOON: Duration = Duration::from_secs(60);

impl Api {
    pub(crate) async fn erase(&self, user: &str) {
        Self::answer(self.call(Method::DELETE, &format!("/v3/users/{user}")), 202).await;
    }

    /// A request can be cancelled once it is kept.
    pub(crate) async fn cancel(&self, request: &str) {
        eventually(SOON, "the request is cancelled", async || {
            let call = self.call(Method::DELETE, &format!("/v3/requests/{request}"));
            (call.send().await.unwrap().status() == 200).then_some(())
        })
        .await;
    }

    pub(crate) async fn knows(&self, user: &str) -> bool {
        let answer = self.call(Method::GET, &format!("/v3/users/{user}")).send().await.unwrap();
        let status = answer.status().as_u16();
        assert!(status == 200 || status == 404, "{status}");
        status == 200
    }
}
