//! Files that every caller gets, such as the OpenAPI document. Each is compressed once; answers share its bytes.

use std::io::{self, Write as _};

use actix_web::body::{BoxBody, MessageBody as _};
use actix_web::http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, ETAG, EntityTag, HeaderName, HeaderValue, IfNoneMatch,
    VARY,
};
use actix_web::web::Bytes;
use actix_web::{HttpMessage, HttpRequest, HttpResponse};
use flate2::Compression;
use flate2::write::GzEncoder;

/// Bytes of a body that fits into one packet.
const PACKET: usize = 1_400;

/// A file with its compressed forms.
pub struct File {
    media: HeaderValue,
    plain: Form,
    /// Compressed forms by their content coding, the preferred one first. Forms that are not smaller are left out.
    coded: Vec<(&'static str, Form)>,
}

struct Form {
    bytes: Bytes,
    tag: EntityTag,
}

impl File {
    /// Compresses a file of the media type `media`.
    pub fn new(media: &'static str, bytes: impl Into<Bytes>) -> io::Result<File> {
        let bytes = bytes.into();
        let coded = gzip(&bytes, Compression::best())?;
        Ok(File::of(HeaderValue::from_static(media), bytes, coded.into()))
    }

    fn of(media: HeaderValue, plain: Bytes, gzip: Bytes) -> File {
        let digest = credentials::secrets::sha256(&plain);
        let name: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        let plain = Form { bytes: plain, tag: EntityTag::new_strong(name) };
        File { media, plain, coded: Vec::new() }.with_form("gzip", gzip)
    }

    /// Adds the Brotli form of the file, which callers that accept it get instead of gzip.
    #[must_use]
    pub fn with_brotli(self, brotli: &'static [u8]) -> File {
        self.with_form("br", Bytes::from_static(brotli))
    }

    fn with_form(mut self, coding: &'static str, bytes: Bytes) -> File {
        if bytes.len() < self.plain.bytes.len() {
            let tag = EntityTag::new_strong(format!("{}-{coding}", self.plain.tag.tag()));
            self.coded.insert(0, (coding, Form { bytes, tag }));
        }
        self
    }

    /// Answers with the file in a form that the caller accepts, or with a 304 if the caller already has this form.
    pub fn answer(&self, request: &HttpRequest, headers: &[(HeaderName, &'static str)]) -> HttpResponse {
        let coded = self.coded.iter().find(|(coding, _)| accepts(request, coding));
        let form = coded.map_or(&self.plain, |(_, form)| form);
        let is_known = match request.get_header::<IfNoneMatch>() {
            Some(IfNoneMatch::Any) => true,
            Some(IfNoneMatch::Items(tags)) => tags.iter().any(|known| known.weak_eq(&form.tag)),
            None => false,
        };
        let mut response = if is_known { HttpResponse::NotModified() } else { HttpResponse::Ok() };
        for (name, value) in headers {
            response.insert_header((name.clone(), HeaderValue::from_static(value)));
        }
        response.insert_header((ETAG, form.tag.to_string())).append_header((VARY, ACCEPT_ENCODING.as_str()));
        if is_known {
            return response.finish();
        }
        if let Some((coding, _)) = coded {
            response.insert_header((CONTENT_ENCODING, *coding));
        }
        response.insert_header((CONTENT_TYPE, self.media.clone())).body(form.bytes.clone())
    }
}

/// Compresses the body of an answer that is made for one request, if the caller accepts it and the body is longer than a packet.
pub fn compress(request: &HttpRequest, response: HttpResponse) -> HttpResponse {
    if !accepts(request, "gzip") || response.headers().contains_key(CONTENT_ENCODING) {
        return response;
    }
    response.map_body(|head, body| match body.try_into_bytes() {
        Ok(bytes) if bytes.len() > PACKET => match gzip(&bytes, Compression::fast()) {
            Ok(coded) => {
                head.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                BoxBody::new(coded)
            }
            Err(_) => BoxBody::new(bytes),
        },
        Ok(bytes) => BoxBody::new(bytes),
        Err(body) => body,
    })
}

fn gzip(bytes: &[u8], level: Compression) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), level);
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Returns true if `Accept-Encoding` names the coding with a weight other than 0 (RFC 9110, section 12.5.3).
fn accepts(request: &HttpRequest, coding: &str) -> bool {
    let values = request.headers().get_all(ACCEPT_ENCODING).filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|accepted| {
        let mut parts = accepted.split(';').map(str::trim);
        let is_named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(coding));
        let weight =
            parts.filter_map(|part| part.split_once('=')).find(|(name, _)| name.eq_ignore_ascii_case("q"));
        is_named && !weight.is_some_and(|(_, weight)| weight.parse() == Ok(0.0))
    })
}
