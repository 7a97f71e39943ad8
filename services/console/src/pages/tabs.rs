//! The tabs of an app: a line with its work, and a second one with how it is set up.

use operations::Permission;

use super::shell::Visit;

/// Tabs of an app: name, segment of the path, and the letter of its shortcut after `g`. The last but one has the pages of [`SETTINGS`].
const TABS: [(&str, &str, char); 9] = [
    ("Overview", "", 'o'),
    ("Sends", "sends", 's'),
    ("People", "people", 'p'),
    ("Waiting", "waiting", 'w'),
    ("Parked", "parked", 'k'),
    ("Templates", "templates", 't'),
    ("Refused", "refused", 'r'),
    ("Settings", "settings", 'e'),
    ("Audit", "audit", 'a'),
];

/// Pages of the second line of tabs, below Settings.
const SETTINGS: [(&str, &str, char); 7] = [
    ("General", "settings", 'e'),
    ("Credentials", "credentials", 'c'),
    ("Providers", "providers", 'v'),
    ("Webhooks", "webhooks", 'h'),
    ("Categories", "categories", 'y'),
    ("Topics", "topics", 'i'),
    ("Setup", "setup", 'u'),
];

/// A tab of the page.
pub(crate) struct Tab {
    pub(crate) name: &'static str,
    pub(crate) path: String,
    pub(crate) letter: char,
    pub(crate) current: bool,
}

impl Visit {
    fn tab(&self, &(name, segment, letter): &(&'static str, &str, char), current: bool) -> Tab {
        let below = if segment.is_empty() { String::new() } else { format!("/{segment}") };
        Tab { name, path: self.path(&below), letter, current }
    }

    fn is_of_settings(&self) -> bool {
        SETTINGS.iter().any(|(_, segment, _)| self.tab == *segment)
    }

    pub(crate) fn tabs(&self) -> Vec<Tab> {
        let tab = |tab: &(&'static str, &str, char)| {
            self.tab(tab, self.tab == tab.1 || tab.1 == "settings" && self.is_of_settings())
        };
        let is_shown =
            |(_, segment, _): &&(&str, &str, char)| *segment != "audit" || self.may(Permission::ReadAuditLog);
        TABS.iter().filter(is_shown).map(tab).collect()
    }

    /// Returns the second line of tabs; empty unless the page belongs to Settings.
    pub(crate) fn settings_tabs(&self) -> Vec<Tab> {
        if self.is_of_settings() { self.all_settings_tabs() } else { Vec::new() }
    }

    fn all_settings_tabs(&self) -> Vec<Tab> {
        SETTINGS.iter().map(|tab| self.tab(tab, self.tab == tab.1)).collect()
    }

    /// Returns the pages that have a shortcut.
    pub(crate) fn shortcuts(&self) -> Vec<Tab> {
        let below = self.all_settings_tabs().into_iter().filter(|tab| tab.letter != 'e');
        self.tabs().into_iter().chain(below).collect()
    }
}
