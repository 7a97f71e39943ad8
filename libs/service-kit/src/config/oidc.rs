use std::path::PathBuf;

use domain::Role;
use url::{Host, Url};

use super::settings::Settings;

/// An OpenID provider that signs operators in to the console.
#[derive(Clone, Debug)]
pub struct Oidc {
    /// URL with https, or with http on this machine. Tokens name it exactly like this.
    pub issuer: String,
    pub client_id: String,
    /// None for a public client.
    pub client_secret_file: Option<PathBuf>,
    pub scopes: Vec<String>,
    /// Claim with the groups of a person; a path such as `realm_access.roles` leads into objects.
    pub role_claim: Option<String>,
    pub role_map: Vec<RoleRule>,
    /// Domains of email addresses. Empty: all.
    pub allowed_domains: Vec<String>,
}

/// A role for the people of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleRule {
    pub group: String,
    pub role: Role,
    /// Name or id of the app; None for all apps.
    pub app: Option<String>,
}

impl Oidc {
    /// Reads the section. Returns None if it names no issuer.
    pub(super) fn read(settings: &mut Settings) -> Option<Oidc> {
        let one = |text: &str| (!text.is_empty()).then(|| Some(text.to_owned()));
        let issuer = settings.one(
            "console.oidc.issuer",
            None,
            |text| is_issuer(text).then(|| Some(text.to_owned())),
            "a URL with https, without query; http only for an address of this machine",
        );
        let client_id = settings.one("console.oidc.client_id", None, one, "the id of the client");
        let scopes = ["openid", "email"].map(str::to_owned).to_vec();
        let word = |text: &str| {
            let is_word = !text.is_empty() && !text.chars().any(|c| c.is_whitespace() || c.is_control());
            is_word.then(|| text.to_owned())
        };
        let oidc = Oidc {
            issuer: issuer.clone().unwrap_or_default(),
            client_id: client_id.clone().unwrap_or_default(),
            client_secret_file: settings.path("console.oidc.client_secret_file"),
            scopes: settings.list("console.oidc.scopes", scopes, word, "scopes, such as openid"),
            role_claim: settings.one("console.oidc.role_claim", None, one, "the name of a claim"),
            role_map: settings.list_or_none(
                "console.oidc.role_map",
                rule,
                "groups with a role, such as ops=operator or shop-support=support@shop",
            ),
            allowed_domains: settings.list_or_none(
                "console.oidc.allowed_domains",
                word,
                "domains, such as example.com",
            ),
        };
        if issuer.is_some() && client_id.is_none() {
            settings.refuse(
                "console.oidc.client_id",
                None,
                "is missing: the id that the provider gave the console",
            );
        }
        if oidc.role_map.is_empty() != oidc.role_claim.is_none() {
            let advice = "needs console.oidc.role_claim, and the claim needs console.oidc.role_map";
            settings.refuse("console.oidc.role_map", None, advice);
        }
        if !oidc.scopes.iter().any(|scope| scope == "openid") {
            settings.refuse("console.oidc.scopes", Some(oidc.scopes.join(",")), "must contain openid");
        }
        issuer.map(|_| oidc)
    }
}

fn is_issuer(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else { return false };
    let is_plain = url.query().is_none() && url.fragment().is_none();
    is_plain && url.username().is_empty() && url.password().is_none() && is_guarded(&url)
}

/// Returns true for https, and for http to an address of this machine.
#[must_use]
pub fn is_guarded(url: &Url) -> bool {
    let is_here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    url.scheme() == "https" && url.host().is_some() || url.scheme() == "http" && is_here
}

/// Parses `GROUP=ROLE`, or `GROUP=ROLE@APP`. A group may contain `=`.
fn rule(text: &str) -> Option<RoleRule> {
    let (group, granted) = text.rsplit_once('=')?;
    let (role, app) = match granted.split_once('@') {
        Some((role, app)) => (role, Some(app.trim())),
        None => (granted, None),
    };
    let is_whole = !group.trim().is_empty() && app.is_none_or(|app| !app.is_empty());
    let role = role.trim().parse().ok().filter(|_| is_whole)?;
    Some(RoleRule { group: group.trim().to_owned(), role, app: app.map(str::to_owned) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_a_group_a_role_and_sometimes_an_app() {
        let of = |group: &str, role, app: Option<&str>| RoleRule {
            group: group.to_owned(),
            role,
            app: app.map(str::to_owned),
        };
        assert_eq!(rule("ops=operator"), Some(of("ops", Role::Operator, None)));
        assert_eq!(rule("a b = support@shop"), Some(of("a b", Role::Support, Some("shop"))));
        assert_eq!(rule("cn=ops,dc=x=admin"), Some(of("cn=ops,dc=x", Role::Admin, None)));
        for refused in ["", "ops", "ops=", "=admin", "ops=root", "ops=admin@", "ops=Admin"] {
            assert_eq!(rule(refused), None, "{refused}");
        }
    }

    #[test]
    fn an_issuer_uses_https_unless_it_runs_on_this_machine() {
        for accepted in ["https://id.example.com", "https://id.example.com/realms/x", "http://127.0.0.1:4000"]
        {
            assert!(is_issuer(accepted), "{accepted}");
        }
        for refused in [
            "http://id.example.com",
            "http://127.0.0.1.example.com",
            "https://a:b@id.example.com",
            "https://id.example.com/?x",
            "https://id.example.com/#x",
            "ftp://localhost",
            "id.example.com",
            "",
        ] {
            assert!(!is_issuer(refused), "{refused}");
        }
    }
}
