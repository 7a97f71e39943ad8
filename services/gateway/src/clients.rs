//! `/clients/`: the browser clients of the folder `clients`, from files that are part of the binary.

use std::io::Write as _;
use std::sync::LazyLock;

use actix_web::http::header::{
    ACCEPT_ENCODING, ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG,
    HeaderName, HeaderValue, IF_NONE_MATCH, VARY,
};
use actix_web::web::Path;
use actix_web::{HttpRequest, HttpResponse};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::http::failure::Failure;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const IMMUTABLE: &str = "public, max-age=31536000, immutable";
/// Files of another release than the path names.
const UNCACHED: &str = "no-store";
/// Files without a version in their path are checked again after five minutes.
const SHORT: &str = "public, max-age=300";
/// Lets cross-origin isolated pages load the files.
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

macro_rules! files {
    ($($path:literal),+ $(,)?) => {
        /// All files, by their path below `clients`.
        const FILES: &[(&str, &str)] =
            &[$(($path, include_str!(concat!("../../../clients/", $path)))),+];
    };
}

files![
    "client/api.js",
    "client/box.js",
    "client/changes.js",
    "client/index.js",
    "client/preferences.js",
    "client/push.js",
    "client/storage.js",
    "client/stream.js",
    "client/tabs.js",
    "client/types.d.ts",
    "inbox/dom.js",
    "inbox/hidden.js",
    "inbox/index.js",
    "inbox/locales.js",
    "inbox/panel-style.js",
    "inbox/panel.js",
    "inbox/settings.js",
    "inbox/strings.js",
    "inbox/style.js",
    "inbox/types.d.ts",
    "react/index.js",
    "web-push/service-worker.js",
];

/// Gets a file of the browser clients.
#[utoipa::path(
    get,
    path = "/clients/{folder}/{file}",
    operation_id = "getClientFile",
    tag = "operation",
    params(
        ("folder" = String, Path, description = "The client: `client`, `inbox`, `react` or `web-push`."),
        ("file" = String, Path, description = "The file's name."),
    ),
    responses(
        (status = 200, description = "The file.", body = String, content_type = "text/javascript", example = "export const createInbox = …"),
        (status = 304, description = "The file has not changed."),
    ),
)]
pub(crate) async fn newest(
    request: HttpRequest,
    path: Path<(String, String)>,
) -> Result<HttpResponse, Failure> {
    let (folder, file) = path.into_inner();
    answer(&request, &format!("{folder}/{file}"), SHORT)
}

/// Gets a file of the browser clients of this release.
///
/// The file of the gateway's own release never changes. For another release, the gateway also sends its own file, which must not be kept,
/// so that pages keep working during and after an upgrade.
#[utoipa::path(
    get,
    path = "/clients/{version}/{folder}/{file}",
    operation_id = "getClientFileOfRelease",
    tag = "operation",
    params(
        ("version" = String, Path, description = "The release of the gateway, such as `0.5.0`."),
        ("folder" = String, Path, description = "The client: `client`, `inbox`, `react` or `web-push`."),
        ("file" = String, Path, description = "The file's name."),
    ),
    responses(
        (status = 200, description = "The file.", body = String, content_type = "text/javascript", example = "export const createInbox = …"),
        (status = 304, description = "The file has not changed."),
    ),
)]
pub(crate) async fn versioned(
    request: HttpRequest,
    path: Path<(String, String, String)>,
) -> Result<HttpResponse, Failure> {
    let (version, folder, file) = path.into_inner();
    if !is_version(&version) {
        return Err(no_such_file());
    }
    let caching = if version == VERSION { IMMUTABLE } else { UNCACHED };
    answer(&request, &format!("{folder}/{file}"), caching)
}

/// A file as it is sent.
struct ClientFile {
    path: &'static str,
    text: &'static str,
    gzip: Vec<u8>,
    /// Entity tags of the text and of its compressed form.
    tags: [String; 2],
}

/// All files, compressed when the first one is requested.
static READY: LazyLock<Vec<ClientFile>> = LazyLock::new(|| FILES.iter().map(ClientFile::new).collect());

impl ClientFile {
    fn new(&(path, text): &(&'static str, &'static str)) -> ClientFile {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        // Writing to memory cannot fail.
        let gzip = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish()).unwrap_or_default();
        let digest = credentials::secrets::sha256(text.as_bytes());
        let tag: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let tags = [format!("\"{tag}\""), format!("\"{tag}-gzip\"")];
        ClientFile { path, text, gzip, tags }
    }
}

fn answer(request: &HttpRequest, path: &str, caching: &'static str) -> Result<HttpResponse, Failure> {
    let file = READY.iter().find(|file| file.path == path).ok_or_else(no_such_file)?;
    let lists = |name, wanted: &str| {
        let values = request.headers().get_all(name).filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|one| one.trim().trim_start_matches("W/") == wanted)
    };
    let is_zipped = lists(ACCEPT_ENCODING, "gzip");
    let tag = &file.tags[usize::from(is_zipped)];
    let is_known = lists(IF_NONE_MATCH, tag);
    let mut response = if is_known { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    response
        .insert_header((CACHE_CONTROL, caching))
        .insert_header((ETAG, tag.as_str()))
        .insert_header((VARY, "Accept-Encoding"))
        .insert_header((ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*")))
        .insert_header((RESOURCE_POLICY, HeaderValue::from_static("cross-origin")));
    if is_known {
        return Ok(response.finish());
    }
    response.insert_header((CONTENT_TYPE, "text/javascript; charset=utf-8"));
    if is_zipped {
        return Ok(response.insert_header((CONTENT_ENCODING, "gzip")).body(file.gzip.as_slice()));
    }
    Ok(response.body(file.text))
}

/// Returns true for three numbers with dots in between.
fn is_version(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split('.').count() == 3 && text.split('.').all(is_number)
}

fn no_such_file() -> Failure {
    Failure::not_found("no such file")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::FILES;

    /// Folders that the gateway does not serve.
    const OTHERS: [&str; 1] = ["demo"];

    #[test]
    fn every_script_of_the_clients_is_served() {
        let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients");
        let mut found = BTreeSet::new();
        for folder in
            fs::read_dir(clients).unwrap().map(Result::unwrap).filter(|folder| folder.path().is_dir())
        {
            let folder_name = folder.file_name().into_string().unwrap();
            if OTHERS.contains(&folder_name.as_str()) {
                continue;
            }
            for file in fs::read_dir(folder.path()).unwrap() {
                let name = file.unwrap().file_name().into_string().unwrap();
                if name.ends_with(".js") || name.ends_with(".d.ts") {
                    found.insert(format!("{folder_name}/{name}"));
                }
            }
        }
        let served: BTreeSet<String> = FILES.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(served, found);
    }
}
