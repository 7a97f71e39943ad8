//! Calls that may find nobody, or go to another gateway.

use reqwest::Method;
use serde_json::Value;
use testkit::eventually;

use crate::api::{Api, SOON, is_busy};

impl Api {
    /// The same at another gateway.
    pub(crate) fn at(&self, origin: &str) -> Api {
        let mut there = self.clone();
        origin.clone_into(&mut there.origin);
        there
    }

    /// A page of a user's inbox.
    pub(crate) async fn inbox(&self, user: &str, cursor: Option<&str>) -> Value {
        let mut query = vec![("limit", "20")];
        query.extend(cursor.map(|cursor| ("cursor", cursor)));
        let call = self.call(Method::GET, "/v3/notifications").query(&query);
        Self::answer(call.header("X-SERVICE-USER-ID", user), 200).await
    }

    /// The resource, or None if it is unknown. Repeats the request while the gateway is busy.
    pub(crate) async fn find(&self, path: &str) -> Option<Value> {
        eventually(SOON, "an answer", async || {
            let (status, answer) = Self::try_once(self.call(Method::GET, path)).await?;
            assert!(matches!(status, 200 | 404) || is_busy(status), "{status}: {answer}");
            (!is_busy(status)).then(|| (status == 200).then_some(answer))
        })
        .await
    }
}
