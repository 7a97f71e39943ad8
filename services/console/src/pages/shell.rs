//! The frame around every page of a signed-in operator.

use domain::target::masked;
use domain::{Channel, DeliveryId, Role, SendId};
use operations::Permission;
use operations::operators::SignedIn;
use operations::people::{MaskedPerson, shown_identifier};
use serde_json::Value;
use store::control::app::App;

use crate::route::{encoded, segment};
use crate::text::Plain;

/// Address of the API for apps, and the prefix of the names of its headers.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    pub(crate) url: String,
    pub(crate) header_prefix: String,
}

impl Api {
    /// Returns a command that reads a resource of the API. The shell of the reader adds the secret.
    fn curl(&self, api_key: &str, resource: &str) -> String {
        let quoted = |text: String| format!("'{}'", text.replace('\'', r"'\''"));
        let (url, prefix) = (quoted(format!("{}{resource}", self.url)), &self.header_prefix);
        let key = quoted(format!("{prefix}-API-KEY: {api_key}"));
        format!("curl -sS {url} \\\n  -H {key} \\\n  -H \"{prefix}-API-SECRET: $SECRET\"")
    }

    /// Returns a command that sends a body to the API.
    pub(crate) fn send(&self, api_key: &str, body: &Value) -> String {
        let body = format!("{body:#}").replace('\'', r"'\''");
        let call = self.curl(api_key, "/v3/notifications");
        format!("{call} \\\n  -H 'Content-Type: application/json' \\\n  -d '{body}'")
    }
}

/// The first sentence of a page.
pub(crate) struct Verdict {
    /// Class in the stylesheet.
    pub(crate) tone: &'static str,
    pub(crate) sign: &'static str,
    pub(crate) head: String,
    pub(crate) text: String,
}

/// A request of a signed-in operator.
pub(crate) struct Visit {
    pub(crate) base: String,
    pub(crate) version: String,
    pub(crate) api: Api,
    pub(crate) operator: SignedIn,
    /// Apps that the operator may see.
    pub(crate) apps: Vec<App>,
    /// App of the page.
    pub(crate) app: Option<App>,
    /// Segment of the path that names the tab of the page.
    pub(crate) tab: String,
    /// True if a proxy signed the operator in, so that the console cannot sign them out.
    pub(crate) by_proxy: bool,
    /// Path and query of the page.
    pub(crate) here: String,
    /// Sentence about the change that led to the page.
    pub(crate) done: Option<&'static str>,
    /// Id of the only part of the page that the script wants.
    pub(crate) part: Option<String>,
}

/// Returns the sentence about a change that led to a page, by its name in the query.
pub(crate) fn done(name: &str) -> Option<&'static str> {
    Some(match name {
        "cancelled" => "The send is cancelled.",
        "lifted" => "The suppression is lifted: the target is used again.",
        "erased" => "The person is erased. Remaining data is deleted within minutes.",
        "released" => "The deliveries are tried now.",
        "settings-saved" => "The settings are saved. Services use them within five seconds.",
        "link-key-rotated" => "The key of links is rotated.",
        "key-revoked" => "The signing key is revoked. Tokens that it signed are refused within five seconds.",
        "webhook-saved" => "The endpoint is saved, and receives events from now on.",
        "webhook-removed" => "The endpoint is removed.",
        "redelivered" => "The messages are sent again now.",
        "category-saved" => "The category is saved.",
        "category-deleted" => "The category is deleted.",
        "topic-saved" => "The topic is saved.",
        "topic-deleted" => "The topic is deleted, with its subscriptions.",
        "token-revoked" => "The token is revoked. The admin API refuses it from the next call on.",
        "unlinked" => {
            "The operator is unlinked. The next identity with this email address is linked instead."
        }
        "provider-saved" => "The provider is saved. Workers use it within two seconds.",
        "provider-enabled" => "The provider is enabled.",
        "provider-disabled" => "The provider is disabled.",
        "provider-removed" => "The provider is removed.",
        "provider-moved" => "The order is changed.",
        "started" => "The redrive runs. It goes on if you close this page.",
        "paused" => "The redrive is paused.",
        "running" => "The redrive goes on.",
        "stopped" => "The redrive is stopped.",
        "granted" => "The role is changed. The operator signs in again.",
        "revoked" => "The role is removed. The operator’s sessions have ended.",
        "disabled" => "The operator is disabled. All sessions and links have ended.",
        "enabled" => "The operator is enabled again.",
        "password" => "Your password is changed. Your other sessions have ended.",
        "ended" => "The session has ended.",
        "ended-all" => "Your other sessions have ended.",
        "published" => "The version is published. Sends use it from now on.",
        _ => return None,
    })
}

/// A person in a list.
pub(crate) struct PersonLink {
    /// Identifier as the operator may see it.
    pub(crate) shown: String,
    /// Path of the person's page; None if it would reveal what is masked.
    pub(crate) path: Option<String>,
}

impl Visit {
    /// Returns the app of the page. Pages of apps are only routed with one.
    pub(crate) fn app(&self) -> Result<&App, crate::answer::Refusal> {
        self.app.as_ref().ok_or(crate::answer::Refusal::NotFound("There is no such app."))
    }

    pub(crate) fn app_path(&self, app: &App) -> String {
        format!("{}/apps/{}", self.base, segment(&app.name))
    }

    /// Returns the path of a page of the current app. `below` begins with a slash, or is empty.
    pub(crate) fn path(&self, below: &str) -> String {
        let app = self.app.as_ref().map(|app| self.app_path(app));
        app.unwrap_or_else(|| format!("{}/apps", self.base)) + below
    }

    /// Returns a command that reads a resource of the API for the app of the page.
    pub(crate) fn curl(&self, resource: &str) -> Option<String> {
        self.app.as_ref().map(|app| self.api.curl(&app.api_key, resource))
    }

    pub(crate) fn send_path(&self, send: &SendId) -> String {
        self.path(&format!("/sends/{send}"))
    }

    pub(crate) fn person_path(&self, identifier: &str) -> String {
        self.path(&format!("/people/{}", segment(identifier)))
    }

    pub(crate) fn template_path(&self, identifier: &str) -> String {
        self.path(&format!("/templates/{}", segment(identifier)))
    }

    /// Returns the path of the page that explains a send for one of its recipients.
    pub(crate) fn explain_path(&self, send: &SendId, recipient_index: i32) -> String {
        self.path(&format!("/sends/{send}/explain?recipient={recipient_index}"))
    }

    /// Returns the path of the page that explains a send for a person, or of the send if the operator may not know the identifier.
    pub(crate) fn explain_path_of(&self, send: &SendId, identifier: Option<&str>) -> String {
        match identifier.filter(|identifier| self.shown(identifier) == **identifier) {
            Some(identifier) => self.path(&format!("/sends/{send}/explain?person={}", encoded(identifier))),
            None => self.send_path(send),
        }
    }

    pub(crate) fn person(&self, identifier: &str) -> PersonLink {
        let shown = self.shown(identifier);
        let path = (shown == identifier).then(|| self.person_path(identifier));
        PersonLink { shown, path }
    }

    /// Returns the path of a person's page, by number if the operator may not know the identifier.
    pub(crate) fn path_of_person(&self, person: &MaskedPerson) -> String {
        if person.shown == person.identifier {
            self.person_path(&person.identifier)
        } else {
            self.path(&format!("/people/number/{}", person.number))
        }
    }

    fn shown(&self, identifier: &str) -> String {
        match &self.app {
            Some(app) => shown_identifier(&self.operator.caller, app.id, identifier),
            None => masked(identifier),
        }
    }

    /// Returns true if the operator has a permission in the app of the page.
    pub(crate) fn may(&self, permission: Permission) -> bool {
        self.app.as_ref().is_some_and(|app| self.operator.caller.may(permission, app.id).is_ok())
    }

    /// Returns the path of the page that lifts a suppression, and then leads back to a page.
    pub(crate) fn lift_path(
        &self,
        channel: impl Plain<Channel>,
        delivery: impl Plain<DeliveryId>,
        back: &str,
    ) -> String {
        let (channel, delivery) = (channel.plain(), delivery.plain());
        self.path(&format!("/suppressions/lift?channel={channel}&delivery={delivery}&back={}", encoded(back)))
    }

    pub(crate) fn app_name(&self) -> &str {
        self.app.as_ref().map_or("", |app| app.name.as_str())
    }

    /// Returns the operator's highest role in the app of the page.
    pub(crate) fn role(&self) -> Option<Role> {
        let app = self.app.as_ref().map(|app| app.id);
        let grants = self.operator.grants.iter();
        grants.filter(|grant| grant.app.is_none() || grant.app == app).map(|grant| grant.role).max()
    }

    pub(crate) fn creates_apps(&self) -> bool {
        self.operator.caller.may(Permission::ManageApps, None).is_ok()
    }

    /// Returns true if the operator may see the installation, which all apps share.
    pub(crate) fn sees_installation(&self) -> bool {
        self.operator.caller.may(Permission::View, None).is_ok()
    }

    /// Returns true if the operator may manage operators and read the whole audit log.
    pub(crate) fn administers(&self) -> bool {
        self.operator.caller.may(Permission::ManageOperators, None).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_quotes_what_the_shell_would_read() {
        let api = Api { url: "https://x.example".to_owned(), header_prefix: "X-SERVICE".to_owned() };
        assert_eq!(
            api.curl("k'$(id)", "/v3/users/a%27b"),
            "curl -sS 'https://x.example/v3/users/a%27b' \\\n  -H 'X-SERVICE-API-KEY: k'\\''$(id)' \\\n  -H \"X-SERVICE-API-SECRET: $SECRET\""
        );
    }
}
