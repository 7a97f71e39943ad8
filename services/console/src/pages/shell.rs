//! The frame around every page of a signed-in operator.

use domain::Role;
use operations::operators::SignedIn;
use store::control::app::App;

use crate::route::encoded;

/// A request of a signed-in operator.
pub(crate) struct Visit {
    pub(crate) base: String,
    pub(crate) version: String,
    pub(crate) operator: SignedIn,
    /// Apps that the operator may see.
    pub(crate) apps: Vec<App>,
    /// App of the page.
    pub(crate) app: Option<App>,
    /// Segment of the path that names the tab of the page.
    pub(crate) tab: String,
    /// True if a proxy signed the operator in, so that the console cannot sign them out.
    pub(crate) by_proxy: bool,
}

/// Tabs of an app: name, segment of the path, and the letter of its shortcut after `g`.
const TABS: [(&str, &str, char); 4] =
    [("Overview", "", 'o'), ("Sends", "sends", 's'), ("People", "people", 'p'), ("Parked", "parked", 'k')];

/// A tab of the page.
pub(crate) struct Tab {
    pub(crate) name: &'static str,
    pub(crate) path: String,
    pub(crate) letter: char,
    pub(crate) current: bool,
}

impl Visit {
    /// Returns the app of the page. Pages of apps are only routed with one.
    pub(crate) fn app(&self) -> Result<&App, crate::answer::Refusal> {
        self.app.as_ref().ok_or(crate::answer::Refusal::NotFound("There is no such app."))
    }

    pub(crate) fn app_path(&self, app: &App) -> String {
        // Browsers remove segments that consist of dots.
        let name =
            if [".", ".."].contains(&app.name.as_str()) { app.id.to_string() } else { encoded(&app.name) };
        format!("{}/apps/{name}", self.base)
    }

    /// Returns the path of a page of the current app. `below` begins with a slash, or is empty.
    pub(crate) fn path(&self, below: &str) -> String {
        let app = self.app.as_ref().map(|app| self.app_path(app));
        app.unwrap_or_else(|| format!("{}/apps", self.base)) + below
    }

    pub(crate) fn send_path(&self, send: &domain::SendId) -> String {
        self.path(&format!("/sends/{send}"))
    }

    pub(crate) fn person_path(&self, identifier: &str) -> String {
        self.path(&format!("/people/{}", encoded(identifier)))
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

    pub(crate) fn tabs(&self) -> Vec<Tab> {
        let tab = |&(name, segment, letter): &(&'static str, &str, char)| {
            let below = if segment.is_empty() { String::new() } else { format!("/{segment}") };
            Tab { name, path: self.path(&below), letter, current: self.tab == segment }
        };
        TABS.iter().map(tab).collect()
    }
}
