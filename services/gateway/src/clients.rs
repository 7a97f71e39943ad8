//! `/clients/`: the browser clients of the folder `clients`, from files that are part of the binary.

use std::io;
use std::sync::LazyLock;

use actix_web::http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, HeaderName};
use actix_web::web::Path;
use actix_web::{HttpRequest, HttpResponse};
use web::failure::Failure;
use web::file::File;
use web::stranger::Stranger;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const MEDIA: &str = "text/javascript; charset=utf-8";
const IMMUTABLE: &str = "public, max-age=31536000, immutable";
/// Files of another release than the path names.
const UNCACHED: &str = "no-store";
/// Files without a version in their path are checked again after five minutes.
const SHORT: &str = "public, max-age=300";
/// Lets cross-origin isolated pages load the files.
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

macro_rules! files {
    ($($path:literal),+ $(,)?; minified: $($minified:literal),+ $(,)?) => {
        /// All files, by their path below `clients`.
        const FILES: &[(&str, &str)] = &[
            $(($path, include_str!(concat!("../../../clients/", $path))),)+
            $(($minified, include_str!(concat!("../../../clients/", $minified))),)+
        ];
        /// Brotli forms of the minified files. `clients/bundle.mjs` writes both.
        const BROTLI: &[(&str, &[u8])] =
            &[$(($minified, include_bytes!(concat!("../../../clients/", $minified, ".br")))),+];
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
    "web-push/service-worker.js";
    minified:
    "min/client.js",
    "min/hidden.js",
    "min/inbox.js",
    "min/locales.js",
    "min/panel.js",
    "min/preferences.js",
    "min/push.js",
    "min/settings.js",
];

/// Gets a file of the browser clients.
#[utoipa::path(
    get,
    path = "/clients/{folder}/{file}",
    operation_id = "getClientFile",
    tag = "operation",
    params(
        ("folder" = String, Path, description = "The client: `client`, `inbox`, `react` or `web-push`; or `min`, the minified files of the first two."),
        ("file" = String, Path, description = "The file's name."),
    ),
    responses(
        (status = 200, description = "The file.", body = String, content_type = "text/javascript", example = "export const createInbox = …"),
        (status = 304, description = "The file has not changed."),
    ),
)]
pub(crate) async fn newest(
    _: Stranger,
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
        ("folder" = String, Path, description = "The client: `client`, `inbox`, `react` or `web-push`; or `min`, the minified files of the first two."),
        ("file" = String, Path, description = "The file's name."),
    ),
    responses(
        (status = 200, description = "The file.", body = String, content_type = "text/javascript", example = "export const createInbox = …"),
        (status = 304, description = "The file has not changed."),
    ),
)]
pub(crate) async fn versioned(
    _: Stranger,
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

/// All files by path, compressed when the first one is requested. Contains the error if a file cannot be compressed.
static READY: LazyLock<io::Result<Vec<(&'static str, File)>>> = LazyLock::new(|| {
    let file = |&(path, text): &(&'static str, &'static str)| {
        let file = File::new(MEDIA, text)?;
        let brotli = BROTLI.iter().find(|(minified, _)| *minified == path);
        Ok((path, if let Some((_, brotli)) = brotli { file.with_brotli(brotli) } else { file }))
    };
    FILES.iter().map(file).collect()
});

fn answer(request: &HttpRequest, path: &str, caching: &'static str) -> Result<HttpResponse, Failure> {
    let files = READY.as_ref().map_err(|error| Failure::Defect(error.to_string()))?;
    let (_, file) = files.iter().find(|(known, _)| *known == path).ok_or_else(no_such_file)?;
    let headers =
        [(CACHE_CONTROL, caching), (ACCESS_CONTROL_ALLOW_ORIGIN, "*"), (RESOURCE_POLICY, "cross-origin")];
    Ok(file.answer(request, &headers))
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
