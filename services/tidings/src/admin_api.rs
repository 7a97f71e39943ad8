//! Client of the admin API, for `tidings mcp` and for commands with `--url`.

mod failure;
mod query;

use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use operations::OperationError;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{CONTENT_TYPE, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Response, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use service_kit::install_crypto_provider;
use url::{Host, Url};

use crate::refused::InvalidInput;
pub(crate) use failure::{CallError, is_missing, names, similar};
pub(crate) use query::Query;

/// Time limit of a call.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);
const CONNECTED_WITHIN: Duration = Duration::from_secs(5);
/// Maximum size of an answer, in bytes.
const MOST_BYTES: usize = 4 << 20;
/// Maximum number of elements of a page.
const MOST_ELEMENTS: usize = 1_000;
/// Maximum number of pages of a list whose call has no limit.
const MOST_PAGES: usize = 2_100;
pub(crate) const URL: &str = "TIDINGS_URL";
const TOKEN: &str = "TIDINGS_TOKEN";

/// Arguments that select a console.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Over HTTP")]
pub(crate) struct ConsoleArguments {
    // clap would count the variable as given.
    /// Work through the console at this address, with the rights of a token [env: TIDINGS_URL, unless --config or --data-dir is given]
    // Another id, because `webhook set` has an argument `url`.
    #[arg(id = "console", long = "url", value_name = "URL")]
    url: Option<String>,
    /// Token that `tidings token create` printed; other users of this machine can see it in the list of processes [env: TIDINGS_TOKEN]
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    token: Option<SecretString>,
    /// File with the token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl ConsoleArguments {
    /// Returns true if an argument names a console or a token.
    pub(crate) fn is_given(&self) -> bool {
        self.url.is_some() || self.token.is_some() || self.token_file.is_some()
    }

    /// Returns the address in the arguments, or else that of the variable.
    pub(crate) fn url(&self) -> Option<String> {
        self.url.clone().or_else(|| std::env::var(URL).ok().filter(|url| !url.is_empty()))
    }

    pub(crate) fn connect(&self) -> anyhow::Result<AdminApi> {
        let missing = || InvalidInput(format!("set --url or {URL} to the address of the console"));
        AdminApi::new(&self.url().ok_or_else(missing)?, self.token()?)
    }

    fn token(&self) -> anyhow::Result<SecretString> {
        let given = match (&self.token, &self.token_file) {
            (Some(token), _) => token.expose_secret().to_owned(),
            (None, Some(file)) => {
                std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?
            }
            (None, None) => std::env::var(TOKEN).unwrap_or_default(),
        };
        let token = given.trim();
        let is_printable = token.bytes().all(|byte| byte.is_ascii_graphic());
        if token.is_empty() || !is_printable {
            let message =
                format!("set {TOKEN} or --token-file to a token; `tidings token create` prints one");
            return Err(InvalidInput(message).into());
        }
        Ok(SecretString::from(token))
    }
}

/// A console, and a token for its calls.
pub(crate) struct AdminApi {
    client: Client,
    /// Address of the console, without a trailing slash.
    url: String,
    token: SecretString,
}

/// Part of a list.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<T> {
    data: Vec<T>,
    next_cursor: Option<String>,
}

/// Number of objects that a call changed.
#[derive(Deserialize)]
pub(crate) struct Changed {
    pub(crate) changed: u64,
}

impl AdminApi {
    fn new(url: &str, token: SecretString) -> anyhow::Result<AdminApi> {
        install_crypto_provider();
        let parsed = Url::parse(url).map_err(|error| InvalidInput(format!("--url is not a URL: {error}")))?;
        let has_more = parsed.query().is_some() || parsed.fragment().is_some();
        if has_more || !parsed.username().is_empty() || parsed.password().is_some() {
            let message = "--url must be the address of the console, without a user, a query or a fragment";
            return Err(InvalidInput(message.to_owned()).into());
        }
        let url = url.trim_end_matches('/').to_owned();
        if !is_guarded(&parsed) {
            let message = format!(
                "{url} is not on this machine, and http would show the token to the network: use https"
            );
            return Err(InvalidInput(message).into());
        }
        let client = Client::builder().redirect(Policy::none());
        let client = client.connect_timeout(CONNECTED_WITHIN).timeout(ANSWERED_WITHIN);
        // A proxy would get the token without encryption.
        let client = if parsed.scheme() == "http" { client.no_proxy() } else { client };
        Ok(AdminApi { client: client.build()?, url, token })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Makes a call, and returns the status and the JSON of its answer. An answer without a body is null.
    pub(crate) async fn exchange(
        &self,
        method: Method,
        path: &str,
        query: &[(String, String)],
        body: Option<&Value>,
    ) -> Result<(StatusCode, Value), CallError> {
        let request = self.client.request(method, format!("{}{path}", self.url));
        let mut request = request.bearer_auth(self.token.expose_secret()).query(query);
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await.map_err(|error| CallError::unanswered(&self.url, &error))?;
        let status = answer.status();
        if status.is_redirection() {
            let to = answer.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            return Err(CallError::redirect(&self.url, to));
        }
        if status == StatusCode::NO_CONTENT {
            return Ok((status, Value::Null));
        }
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or("no content type").to_owned();
        let no_json = || CallError::NoJson { url: self.url.clone(), status, kind: kind.clone() };
        if kind != "application/json" {
            return Err(no_json());
        }
        let body = serde_json::from_slice(&self.read(answer).await?).map_err(|_| no_json())?;
        Ok((status, body))
    }

    async fn read(&self, mut answer: Response) -> Result<Vec<u8>, CallError> {
        let mut body = Vec::new();
        while let Some(chunk) =
            answer.chunk().await.map_err(|error| CallError::unanswered(&self.url, &error))?
        {
            if body.len() + chunk.len() > MOST_BYTES {
                return Err(CallError::TooLarge(MOST_BYTES));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// Makes a call, and reads its answer.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &[&dyn Display],
        query: &Query,
        body: Option<&Value>,
    ) -> Result<T, OperationError> {
        let path = path_of(path)?;
        let (status, answer) = self.exchange(method, &path, query.pairs(), body).await?;
        if !status.is_success() {
            return Err(failure::of_answer(status, &answer));
        }
        serde_json::from_value(answer).map_err(|error| CallError::OtherRelease(error).into())
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &[&dyn Display]) -> Result<T, OperationError> {
        self.call(Method::GET, path, &Query::default(), None).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &[&dyn Display],
        body: &Value,
    ) -> Result<T, OperationError> {
        self.call(Method::POST, path, &Query::default(), Some(body)).await
    }

    pub(crate) async fn delete<T: DeserializeOwned>(
        &self,
        path: &[&dyn Display],
    ) -> Result<T, OperationError> {
        self.call(Method::DELETE, path, &Query::default(), None).await
    }

    /// Reads all pages of a list whose call has no limit.
    pub(crate) async fn whole<T: DeserializeOwned>(
        &self,
        path: &[&dyn Display],
        query: Query,
    ) -> Result<Vec<T>, OperationError> {
        let (mut rows, mut next) = (Vec::new(), None);
        for _ in 0..MOST_PAGES {
            let query = query.clone().with("cursor", next);
            let page: Page<T> = self.call(Method::GET, path, &query, None).await?;
            rows.extend(page.data);
            next = page.next_cursor;
            if next.is_none() {
                break;
            }
        }
        Ok(rows)
    }

    /// Reads up to `limit` rows of a list, of which the call returns at most 1,000 at once.
    pub(crate) async fn first<T: DeserializeOwned>(
        &self,
        path: &[&dyn Display],
        query: Query,
        limit: usize,
    ) -> Result<Vec<T>, OperationError> {
        let (mut rows, mut next) = (Vec::new(), None);
        while rows.len() < limit {
            let (found, following) = self.page(path, query.clone(), limit - rows.len(), next).await?;
            rows.extend(found);
            next = following;
            if next.is_none() {
                break;
            }
        }
        Ok(rows)
    }

    /// Reads rows after a place of the same list, and returns the place after which they continue. They may be fewer than `limit` although more
    /// follow.
    pub(crate) async fn after<T: DeserializeOwned>(
        &self,
        path: &[&dyn Display],
        query: Query,
        limit: usize,
        place: Option<String>,
    ) -> Result<(Vec<T>, Option<String>), OperationError> {
        let mut next = place.map(web::cursor::write);
        let mut rows = Vec::new();
        loop {
            let asked = (limit - rows.len()).min(MOST_ELEMENTS);
            let (found, following): (Vec<T>, _) = self.page(path, query.clone(), asked, next).await?;
            let is_full = found.len() == asked;
            rows.extend(found);
            next = following;
            if !is_full || next.is_none() || rows.len() >= limit {
                let place = next.as_deref().and_then(web::cursor::place);
                return Ok((rows, place));
            }
        }
    }

    async fn page<T: DeserializeOwned>(
        &self,
        path: &[&dyn Display],
        query: Query,
        limit: usize,
        cursor: Option<String>,
    ) -> Result<(Vec<T>, Option<String>), OperationError> {
        let query = query.with("limit", Some(limit.min(MOST_ELEMENTS))).with("cursor", cursor);
        let page: Page<T> = self.call(Method::GET, path, &query, None).await?;
        Ok((page.data, page.next_cursor))
    }
}

/// Returns a path with encoded names.
fn path_of(names: &[&dyn Display]) -> Result<String, CallError> {
    let mut path = "/v1/admin".to_owned();
    for name in names {
        let name = name.to_string();
        match name.as_str() {
            // Without a name, the path would be another one.
            "" => return Err(CallError::Missing("an empty name names nothing".to_owned())),
            // A URL with such a segment, also percent-encoded, means another call.
            "." | ".." => return Err(CallError::Unnameable(name)),
            name => path.push_str(&format!("/{}", utf8_percent_encode(name, NON_ALPHANUMERIC))),
        }
    }
    Ok(path)
}

/// Returns true if the requests cannot be read on their way.
fn is_guarded(url: &Url) -> bool {
    let is_own = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    url.scheme() == "https" || (url.scheme() == "http" && is_own)
}
