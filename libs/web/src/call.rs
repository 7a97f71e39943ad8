//! Paths of the API with their methods, and the answers to OPTIONS and to unsupported methods.

use actix_web::http::Method;
use actix_web::http::header::ALLOW;
use actix_web::{FromRequest, Handler, HttpRequest, HttpResponse, Resource, Responder, Route, web};

use crate::failure::Failure;
use crate::stranger::Stranger;

/// A method of a path, with its handler.
pub struct Call {
    method: Method,
    routes: Vec<Route>,
    for_users: bool,
}

impl Call {
    /// Marks the call as a call for users. Browsers may make it from other origins.
    pub fn for_users(self) -> Call {
        Call { for_users: true, ..self }
    }
}

pub fn for_users<const CALLS: usize>(calls: [Call; CALLS]) -> [Call; CALLS] {
    calls.map(Call::for_users)
}

/// All calls of a path. They are stored as app data of the path's resource.
pub struct Calls {
    /// The methods of the path. The flag is true if the method is a call for users.
    methods: Vec<(Method, bool)>,
    allow: String,
}

impl Calls {
    fn of(calls: &[Call]) -> Calls {
        let mut methods = Vec::new();
        for call in calls {
            methods.push((call.method.clone(), call.for_users));
            if call.method == Method::GET {
                methods.push((Method::HEAD, call.for_users));
            }
        }
        let names = methods.iter().map(|(method, _)| method.as_str()).chain(["OPTIONS"]);
        Calls { allow: names.collect::<Vec<_>>().join(", "), methods }
    }

    /// Returns true if scripts of other origins may read the answer to this method. They may read the 405 for an unsupported
    /// method only if the path has a call for users.
    pub fn is_for_users(&self, method: &Method) -> bool {
        let call = self.methods.iter().find(|(known, _)| known == method);
        call.map_or_else(|| self.for_users().next().is_some(), |(_, for_users)| *for_users)
    }

    /// Iterates over the methods of the calls for users.
    pub fn for_users(&self) -> impl Iterator<Item = &Method> {
        self.methods.iter().filter(|(_, for_users)| *for_users).map(|(method, _)| method)
    }
}

/// Builds the resource of a path from its calls. GET also serves HEAD, every path answers OPTIONS, and every other method gets
/// a 405.
pub fn resource<const CALLS: usize>(
    path: &'static str,
    calls: [Call; CALLS],
) -> (&'static str, Vec<Method>, Resource) {
    let methods = calls.iter().map(|call| call.method.clone()).collect();
    let known = Calls::of(&calls);
    let mut resource = web::resource(path);
    for route in calls.into_iter().flat_map(|call| call.routes) {
        resource = resource.route(route);
    }
    let resource = resource
        .route(web::route().method(Method::OPTIONS).to(options))
        .default_service(web::to(no_such_method))
        .app_data(known);
    (path, methods, resource)
}

macro_rules! methods {
    ($($name:ident = $method:ident),+) => { $(
        /// Creates a call with this method. Browsers may not make it from other origins, unless `for_users` marks it.
        pub fn $name<H, Arguments>(handler: H) -> Call
        where
            H: Handler<Arguments>,
            Arguments: FromRequest + 'static,
            H::Output: Responder + 'static,
        {
            let mut routes = Vec::new();
            if Method::$method == Method::GET {
                routes.push(web::head().to(handler.clone()));
            }
            routes.push(web::$name().to(handler));
            Call { method: Method::$method, routes, for_users: false }
        }
    )+ };
}

methods!(get = GET, post = POST, put = PUT, patch = PATCH, delete = DELETE);

/// Creates a call for each of POST, PUT and PATCH, because existing clients use all three methods to change many notifications.
pub fn change<H, Arguments>(handler: H) -> [Call; 3]
where
    H: Handler<Arguments>,
    Arguments: FromRequest + 'static,
    H::Output: Responder + 'static,
{
    [post(handler.clone()), put(handler.clone()), patch(handler)]
}

/// Answers OPTIONS with the methods of the path (RFC 9110, section 9.3.7).
async fn options(_: Stranger, request: HttpRequest) -> HttpResponse {
    HttpResponse::NoContent().insert_header((ALLOW, allow(&request))).finish()
}

async fn no_such_method(_: Stranger, request: HttpRequest) -> Result<String, Failure> {
    Err(Failure::Method(allow(&request)))
}

fn allow(request: &HttpRequest) -> String {
    request.app_data().map_or_else(String::new, |calls: &Calls| calls.allow.clone())
}
