//! Calls that the OpenAPI document of a server declares. A request with a parameter that its call does not declare is refused if the
//! client asks for strict handling, or if the name differs from a declared one in case only; otherwise, a header `Warning` names the
//! parameter.

use std::collections::{BTreeMap, HashMap};

use actix_web::HttpRequest;
use actix_web::http::Method;
use actix_web::http::header::HeaderValue;
use actix_web::web::Data;
use domain::Problem;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use service_kit::likeness::{likeness, nearest};

use crate::failure::Failure;
use crate::handling::Handling;
use crate::query::{Query, names};
use crate::warning;

/// Parameters that belong to the credentials of a call. Every call accepts them.
const OF_CREDENTIALS: &str = "userIdentifier";
/// Maximum number of unknown parameters that a strict request is refused for. Each is compared with the others, and a query may have
/// thousands.
const MOST_PROBLEMS: usize = 100;
/// Maximum number of headers `Warning` of an answer.
const MOST_WARNINGS: usize = 5;
const ADVICE: &str = " is not a parameter of this call";
/// Longest name in a header `Warning`, in characters.
const LONGEST_NAME: usize = 64;
/// Characters of a name that a header `Warning` shows percent-encoded.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'[').remove(b']');
/// Longest path for which a declared one is suggested, in bytes.
const LONGEST_PATH: usize = 256;

/// Calls of a server, with the query parameters of each.
#[derive(Default)]
pub struct Declared {
    /// By path without the names of its parameters, then by method.
    calls: HashMap<String, HashMap<String, Vec<String>>>,
    /// The paths, each with its methods.
    paths: BTreeMap<String, Vec<String>>,
}

impl Declared {
    /// Reads the calls of an OpenAPI document. Only operations with `security` are checked for unknown parameters: mail programs and
    /// providers add their own to links and callbacks.
    #[must_use]
    pub fn read(document: &Value) -> Declared {
        let mut declared = Declared::default();
        for (path, operations) in document["paths"].as_object().into_iter().flatten() {
            for (method, operation) in operations.as_object().into_iter().flatten() {
                let method = method.to_uppercase();
                declared.paths.entry(path.clone()).or_default().push(method.clone());
                if operation.get("security").is_some() {
                    let by_method = declared.calls.entry(shape(path)).or_default();
                    by_method.insert(method, query_parameters(document, operation));
                }
            }
        }
        declared
    }

    /// Returns a problem for each of the first `most` parameters that the call does not declare and that are spelt as asked for.
    fn unknown(&self, request: &HttpRequest, spelling: Spelling, most: usize) -> Vec<Problem> {
        let Some(known) = self.parameters(request) else { return Vec::new() };
        let known = Known(known);
        let is_wanted = |name: &str| match spelling {
            _ if known.has(name) => false,
            Spelling::Any => true,
            Spelling::OtherCase => known.in_other_case(name).is_some(),
            Spelling::OtherName => known.in_other_case(name).is_none(),
        };
        let mut problems: Vec<Problem> = Vec::new();
        for name in names(request).filter(|name| is_wanted(name)) {
            if problems.len() == most {
                break;
            }
            if problems.iter().all(|problem| problem.field != name) {
                let message = format!("{name}{}", known.advice(&name));
                problems.push(Problem::new(name.as_ref(), "unknown_parameter", message));
            }
        }
        problems
    }

    /// Returns the parameters of the call; None if it is not checked.
    fn parameters(&self, request: &HttpRequest) -> Option<&[String]> {
        if request.query_string().is_empty() {
            return None;
        }
        let method = if request.method() == Method::HEAD { Method::GET } else { request.method().clone() };
        let by_method = self.calls.get(&shape(&request.match_pattern()?))?;
        by_method.get(method.as_str()).map(Vec::as_slice)
    }

    /// Returns the declared call that is most like a request without a route, such as `POST /v3/notifications`.
    #[must_use]
    pub fn nearest(&self, method: &Method, path: &str) -> Option<String> {
        if path.len() > LONGEST_PATH {
            return None;
        }
        let wanted = resource(path);
        let alike = self.paths.iter().filter_map(|(path, methods)| {
            let has_method = methods.iter().any(|known| known == method.as_str());
            Some((path_likeness(&wanted, &resource(path))?, has_method, path, methods))
        });
        let (_, has_method, path, methods) =
            alike.max_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(b.2.len().cmp(&a.2.len())))?;
        let methods = if has_method { method.to_string() } else { methods.join(" or ") };
        Some(format!("{methods} {path}"))
    }
}

/// Parameters of a call.
struct Known<'a>(&'a [String]);

impl Known<'_> {
    fn has(&self, name: &str) -> bool {
        name == OF_CREDENTIALS || self.0.iter().any(|known| known == name)
    }

    /// Returns the parameter that differs from an undeclared name in case only.
    fn in_other_case(&self, name: &str) -> Option<&str> {
        let mut all = self.0.iter().map(String::as_str).chain([OF_CREDENTIALS]);
        all.find(|known| known.eq_ignore_ascii_case(name))
    }

    fn advice(&self, name: &str) -> String {
        let Known(known) = self;
        let likely = self.in_other_case(name).or_else(|| nearest(name, known.iter().map(String::as_str)));
        match likely {
            Some(likely) => format!("{ADVICE}; did you mean {likely}?"),
            None if known.is_empty() => format!("{ADVICE}, which has none"),
            None => format!("{ADVICE}, which has {}", known.join(", ")),
        }
    }
}

/// Spelling of an undeclared parameter.
#[derive(Clone, Copy)]
enum Spelling {
    Any,
    /// Differs from a declared name in case only. The client meant something that would not happen, such as `dryrun=true`.
    OtherCase,
    OtherName,
}

/// Returns a problem for each parameter for which a request is refused.
pub fn problems(request: &HttpRequest) -> Vec<Problem> {
    let spelling = if Handling::of(request).strict { Spelling::Any } else { Spelling::OtherCase };
    unknown_parameters(request, spelling, MOST_PROBLEMS)
}

/// Refuses a request with parameters that its call does not declare, unless its handler reads the query: then [`Query::finish`] reports
/// them together with the handler's other problems.
pub fn check(request: &HttpRequest) -> Result<(), Failure> {
    let problems = if Query::is_read(request) { Vec::new() } else { problems(request) };
    if problems.is_empty() { Ok(()) } else { Err(Failure::Invalid(problems)) }
}

/// Returns the headers `Warning` for the first unknown parameters of a request that are not refused.
pub fn warnings(request: &HttpRequest) -> Vec<HeaderValue> {
    if Handling::of(request).strict {
        return Vec::new();
    }
    let problems = unknown_parameters(request, Spelling::OtherName, MOST_WARNINGS);
    problems.iter().filter_map(|problem| warning::value(&warning_of(problem))).collect()
}

fn unknown_parameters(request: &HttpRequest, spelling: Spelling, most: usize) -> Vec<Problem> {
    let declared = request.app_data::<Data<Declared>>();
    declared.map(|declared| declared.unknown(request, spelling, most)).unwrap_or_default()
}

/// Returns the message of a problem with the client's name shortened and encoded, as a header can contain it.
fn warning_of(problem: &Problem) -> String {
    let shown = utf8_percent_encode(&problem.field, ENCODED).flat_map(str::chars).take(LONGEST_NAME);
    // A problem shortens a long name, so the message does not begin with it.
    let advice = problem.message.rfind(ADVICE).and_then(|at| problem.message.get(at..)).unwrap_or_default();
    shown.chain(advice.chars()).collect()
}

fn query_parameters(document: &Value, operation: &Value) -> Vec<String> {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let resolved = parameters.filter_map(|parameter| match parameter.get("$ref").and_then(Value::as_str) {
        Some(reference) => document.pointer(reference.strip_prefix('#')?),
        None => Some(parameter),
    });
    let in_query = resolved.filter(|parameter| parameter["in"] == "query");
    in_query.filter_map(|parameter| parameter["name"].as_str().map(str::to_owned)).collect()
}

/// Returns a path without the names of its parameters. A parameter with a literal as its pattern (`{id:bulk}`) becomes the literal.
fn shape(path: &str) -> String {
    let segment = |segment| match parameter(segment) {
        Some(parameter) => parameter.split_once(':').map_or("{}", |(_, literal)| literal),
        None => segment,
    };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

fn parameter(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}

/// Returns the segments of a path without the prefix `/api` and without a version.
fn resource(path: &str) -> Vec<&str> {
    let mut segments: Vec<_> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let is_version = |segment: &str| {
        segment
            .strip_prefix('v')
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    if segments.first() == Some(&"api") {
        segments.remove(0);
    }
    if segments.first().is_some_and(|first| is_version(first)) {
        segments.remove(0);
    }
    segments
}

/// Returns the likeness of two paths: that of their least alike segments. A parameter is like any segment, but less than an equal one.
fn path_likeness(wanted: &[&str], known: &[&str]) -> Option<f64> {
    if wanted.is_empty() || wanted.len() != known.len() {
        return None;
    }
    let of_segment = |(wanted, known): (&&str, &&str)| match parameter(known) {
        Some(_) => Some(0.9),
        None => likeness(wanted, known),
    };
    let likeness: Vec<f64> = wanted.iter().zip(known).map(of_segment).collect::<Option<_>>()?;
    likeness.into_iter().reduce(f64::min)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn declared() -> Declared {
        let limit = json!({"name": "limit", "in": "query"});
        let user = json!({"$ref": "#/components/parameters/User"});
        Declared::read(&json!({
            "components": {"parameters": {"User": {"name": "user", "in": "query"}}},
            "paths": {
                "/v3/notifications": {
                    "get": {"security": [], "parameters": [limit, user, {"name": "Prefer", "in": "header"}]},
                    "post": {"security": []},
                },
                "/v3/notifications/{id}": {"get": {"security": []}},
                "/v3/users/{identifier}": {"get": {"security": []}, "put": {"security": []}},
                "/v3/users/bulk": {"post": {"security": []}},
                "/healthz": {"get": {}},
            },
        }))
    }

    #[test]
    fn parameters_are_those_of_the_call_by_its_path_and_method() {
        let declared = declared();
        let of = |path: &str, method: &str| {
            declared.calls.get(&shape(path)).and_then(|calls| calls.get(method)).cloned()
        };
        assert_eq!(of("/v3/notifications", "GET"), Some(vec!["limit".to_owned(), "user".to_owned()]));
        assert_eq!(of("/v3/notifications", "POST"), Some(vec![]));
        assert_eq!(of("/v3/notifications/{x}", "GET"), Some(vec![]));
        assert_eq!(of("/v3/users/{id:bulk}", "POST"), Some(vec![]));
        assert_eq!(of("/healthz", "GET"), None);
    }

    #[test]
    fn the_nearest_call_has_a_like_path_and_if_possible_the_method() {
        let declared = declared();
        for (method, path, expected) in [
            (Method::POST, "/v3/notification", Some("POST /v3/notifications")),
            (Method::POST, "/notifications", Some("POST /v3/notifications")),
            (Method::POST, "/api/v1/Notifications", Some("POST /v3/notifications")),
            (Method::DELETE, "/v3/notificatons", Some("GET or POST /v3/notifications")),
            (Method::GET, "/v3/user/ada", Some("GET /v3/users/{identifier}")),
            (Method::POST, "/v3/users/blk", Some("POST /v3/users/bulk")),
            (Method::GET, "/health", Some("GET /healthz")),
            (Method::GET, "/", None),
            (Method::GET, "/wp-admin/setup.php", None),
            (Method::GET, "/v3/notifications/7/what/is/this", None),
        ] {
            assert_eq!(declared.nearest(&method, path).as_deref(), expected, "{method} {path}");
        }
        assert_eq!(declared.nearest(&Method::GET, &"/v3/notification".repeat(100)), None);
    }

    #[test]
    fn a_warning_shows_any_name_short_and_in_ascii() {
        for name in ["x", "\"x\\", "a\r\nX-Other: 1", &"ü".repeat(300)] {
            let problem =
                Problem::new(name, "unknown_parameter", format!("{name}{}", Known(&[]).advice(name)));
            let value = warning::value(&warning_of(&problem)).unwrap();
            let value = value.to_str().unwrap();
            assert!(value.len() < 200 && value.ends_with("this call, which has none\""), "{value}");
        }
    }
}
