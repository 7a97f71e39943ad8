//! Authentication and authorization of callers.

pub(crate) mod apps;
pub(crate) mod caller;
pub(crate) mod device_secret;
pub(crate) mod identity;
pub(crate) mod known_app;
pub(crate) mod refusals;
pub(crate) mod refused_calls;
mod signature;
mod token;
mod token_key;

use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::web::Data;
use anyhow::Context as _;
use service_kit::Context;
use web::failure::Failure;
use web::headers::HeaderNames;

use crate::access::apps::Apps;
use crate::access::refusals::Refusals;
use crate::access::refused_calls::RefusedCalls;

/// Keys, caches and settings that authenticate callers. It is app data of the server.
pub(crate) struct Access {
    pub(crate) apps: Apps,
    pub(crate) refusals: Refusals,
    pub(crate) refused_calls: RefusedCalls,
    pub(crate) header_names: HeaderNames,
    /// Longest time for which a bearer token may be valid.
    pub(crate) token_lifetime: Duration,
}

impl Access {
    pub(crate) fn new(context: &Context) -> anyhow::Result<Data<Access>> {
        let header_names = HeaderNames::new(&context.config.header_prefixes);
        Ok(Data::new(Access {
            apps: Apps::new(context),
            refusals: Refusals::new(),
            refused_calls: RefusedCalls::new(),
            header_names: header_names.context("header_prefixes")?,
            token_lifetime: context.config.gateway.token_lifetime,
        }))
    }

    pub(crate) fn of(request: &HttpRequest) -> Result<&Data<Access>, Failure> {
        let access = request.app_data::<Data<Access>>();
        access.ok_or_else(|| Failure::Defect("the server was built without its access".to_owned()))
    }
}
