use hyper::Response;
use hyper::body::Bytes;
use serde_json::json;

use crate::http::json;

#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) why: String,
}

impl Refusal {
    pub(super) fn new(status: u16, why: &str) -> Refusal {
        Refusal { status, why: why.to_owned() }
    }

    pub(super) fn answer(&self) -> Response<Bytes> {
        json(self.status, &json!({"message": self.why}))
    }
}
