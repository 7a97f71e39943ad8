use std::collections::HashSet;

/// Length of an address, token or subscription, in bytes.
pub const MAX_TARGET: usize = 2048;
use serde_json::Value;

use super::push_targets;
use crate::content::Object;

/// Limit per service in a profile. New tokens replace the oldest.
pub const MAX_TOKENS: usize = 50;

/// Keys whose objects contain push tokens. A merge merges their members instead of replacing them.
pub(super) const TOKEN_HOLDERS: [&str; 2] = ["fcm", "apns"];

pub(super) fn merge(profile: &mut Object, pairs: Object) {
    for (key, value) in pairs {
        match value {
            Value::Object(update) if TOKEN_HOLDERS.contains(&key.as_str()) => {
                let slot = profile.entry(key).or_insert_with(|| Value::Object(Object::new()));
                if !slot.is_object() {
                    *slot = Value::Object(Object::new());
                }
                if let Value::Object(holder) = slot {
                    merge_holder(holder, update);
                }
            }
            value => {
                profile.insert(key, value);
            }
        }
    }
}

fn merge_holder(holder: &mut Object, mut update: Object) {
    let added = collect(&mut update);
    holder.extend(update);
    add_tokens(holder, added);
}

/// Brings the tokens of a patched profile into the form that [`merge`] produces.
pub(super) fn settle(profile: &mut Object) {
    for key in TOKEN_HOLDERS {
        if let Some(Value::Object(holder)) = profile.get_mut(key) {
            let tokens = collect(holder);
            add_tokens(holder, tokens);
        }
    }
}

/// Removes `tokens` and `token`. Returns at most the last [`MAX_TOKENS`] of both; None if both members are missing or `null`.
fn collect(holder: &mut Object) -> Option<Vec<String>> {
    let tokens = holder.remove("tokens");
    let token = holder.remove("token");
    let given = tokens.iter().chain(&token).any(|value| !value.is_null());
    let tokens = match tokens {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    };
    let texts = tokens.into_iter().chain(token).filter_map(|value| match value {
        Value::String(text) if !text.is_empty() => Some(text),
        _ => None,
    });
    // `add_tokens` keeps only the last [`MAX_TOKENS`] tokens, and compares each new token with all known ones. A short list keeps
    // this comparison cheap.
    let mut texts: Vec<String> = texts.collect();
    texts.drain(..texts.len().saturating_sub(MAX_TOKENS));
    given.then_some(texts)
}

fn add_tokens(holder: &mut Object, added: Option<Vec<String>>) {
    let Some(added) = added else {
        return;
    };
    let mut tokens = tokens_in(holder);
    for token in added {
        if !tokens.contains(&token) {
            tokens.push(token);
        }
    }
    tokens.drain(..tokens.len().saturating_sub(MAX_TOKENS));
    holder.insert("tokens".to_owned(), tokens.into());
}

#[must_use]
pub fn count_tokens(profile: &Object, service: &str) -> usize {
    profile.get(service).and_then(Value::as_object).map_or(0, |holder| tokens_in(holder).len())
}

/// `target` has the form `fcm:{token}`. Returns false if the profile lacks this token.
pub fn remove_token(profile: &mut Object, target: &str) -> bool {
    let Some((service, token)) = target.split_once(':') else { return false };
    let holder = profile.get_mut(service).and_then(Value::as_object_mut);
    let Some(Value::Array(tokens)) = holder.and_then(|holder| holder.get_mut("tokens")) else { return false };
    let before = tokens.len();
    tokens.retain(|known| known.as_str() != Some(token));
    tokens.len() < before
}

/// Effect of a write on the push tokens of a profile, as targets such as `fcm:{token}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenChange {
    /// For a merge, all tokens in the merged pairs that the profile then contains, including those that it already had. For a patch, only
    /// new tokens.
    pub named: Vec<String>,
    pub dropped: Vec<String>,
}

impl TokenChange {
    /// Effect of pairs that were merged one after the other; empty if they contain neither `fcm` nor `apns`.
    #[must_use]
    pub fn merged(before: &Object, after: &Object, pairs: &[&Object]) -> TokenChange {
        let holders =
            || pairs.iter().flat_map(|pairs| TOKEN_HOLDERS.map(|service| (service, pairs.get(service))));
        if holders().all(|(_, holder)| holder.is_none()) {
            return TokenChange::default();
        }
        let mut named = HashSet::new();
        for (service, holder) in holders() {
            let Some(holder) = holder.and_then(Value::as_object) else { continue };
            let token = holder.get("token").and_then(Value::as_str).map(str::to_owned);
            let tokens = tokens_in(holder).into_iter().chain(token);
            named.extend(tokens.map(|token| format!("{service}:{token}")));
        }
        TokenChange::between(before, after, |target| named.contains(target))
    }

    #[must_use]
    pub fn patched(before: &Object, after: &Object) -> TokenChange {
        TokenChange::between(before, after, |_| false)
    }

    fn between(before: &Object, after: &Object, is_named: impl Fn(&str) -> bool) -> TokenChange {
        let [before, after] = [before, after].map(|profile| {
            push_targets(profile).filter(|target| target.len() <= MAX_TARGET).collect::<HashSet<_>>()
        });
        let is_new = |target: &&String| is_named(target) || !before.contains(*target);
        TokenChange {
            named: after.iter().filter(is_new).cloned().collect(),
            dropped: before.difference(&after).cloned().collect(),
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.named.is_empty() && self.dropped.is_empty()
    }
}

pub(super) fn tokens_in(holder: &Object) -> Vec<String> {
    let items = holder.get("tokens").and_then(Value::as_array);
    items.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(profile: Value, pairs: Value) -> Value {
        let (Value::Object(mut profile), Value::Object(pairs)) = (profile, pairs) else {
            panic!("only objects can be merged");
        };
        merge(&mut profile, pairs);
        Value::Object(profile)
    }

    #[test]
    fn merging_replaces_keys_and_unites_tokens() {
        let before = json!({"name": "Ada", "fcm": {"tokens": ["a"], "lang": "en"}, "plan": {"x": 1}});
        let pairs = json!({"name": null, "fcm": {"token": "b", "tokens": ["a", "c"]}, "plan": {"y": 2}});
        let after = json!({"name": null, "fcm": {"tokens": ["a", "c", "b"], "lang": "en"}, "plan": {"y": 2}});
        assert_eq!(merged(before, pairs), after);
    }

    #[test]
    fn tokens_change_only_if_the_write_contains_tokens() {
        let cases = [
            (json!({}), json!({"fcm": {"token": "a"}}), json!({"fcm": {"tokens": ["a"]}})),
            (json!({"fcm": null}), json!({"fcm": {"token": "a"}}), json!({"fcm": {"tokens": ["a"]}})),
            (json!({}), json!({"fcm": {"token": ""}}), json!({"fcm": {"tokens": []}})),
            (json!({}), json!({"fcm": {"lang": "en"}}), json!({"fcm": {"lang": "en"}})),
            (json!({}), json!({"apns": {"token": null, "tokens": null}}), json!({"apns": {}})),
            (json!({"apns": {"tokens": ["a"]}}), json!({"apns": null}), json!({"apns": null})),
        ];
        for (before, pairs, after) in cases {
            assert_eq!(merged(before, pairs.clone()), after, "{pairs}");
        }
    }

    #[test]
    fn a_write_names_the_tokens_that_it_contains() {
        let object = |value: Value| value.as_object().unwrap().clone();
        let before = object(json!({"fcm": {"tokens": ["a", "b"]}, "apns": {"tokens": ["c"]}}));
        let sorted = |mut change: TokenChange| {
            change.named.sort();
            change.dropped.sort();
            (change.named, change.dropped)
        };
        let cases = [
            (json!({"name": "Ada"}), vec![], vec![]),
            (json!({"fcm": {"lang": "en"}}), vec![], vec![]),
            (json!({"fcm": {"token": "a"}}), vec!["fcm:a"], vec![]),
            (json!({"fcm": {"tokens": ["b", "d"]}, "apns": null}), vec!["fcm:b", "fcm:d"], vec!["apns:c"]),
        ];
        for (pairs, named, dropped) in cases {
            let pairs = object(pairs);
            let mut after = before.clone();
            merge(&mut after, pairs.clone());
            let (found, lost) = sorted(TokenChange::merged(&before, &after, &[&pairs]));
            assert_eq!(
                (found, lost),
                (
                    named.iter().map(|&t| t.to_owned()).collect(),
                    dropped.iter().map(|&t| t.to_owned()).collect::<Vec<String>>()
                )
            );
        }
        let after = object(json!({"fcm": {"tokens": ["b", "d"]}, "apns": {"tokens": ["c"]}}));
        let (named, dropped) = sorted(TokenChange::patched(&before, &after));
        assert_eq!((named, dropped), (vec!["fcm:d".to_owned()], vec!["fcm:a".to_owned()]));
    }

    #[test]
    fn new_tokens_replace_the_oldest() {
        let many: Vec<String> = (0..MAX_TOKENS).map(|number| number.to_string()).collect();
        let full = json!({"fcm": {"tokens": many}});
        assert_eq!(merged(full.clone(), json!({"fcm": {"token": "7"}})), full);
        let after = merged(full, json!({"fcm": {"token": "new"}}));
        let tokens = after["fcm"]["tokens"].as_array().unwrap();
        assert_eq!(
            (tokens.len(), &tokens[0], &tokens[MAX_TOKENS - 1]),
            (MAX_TOKENS, &json!("1"), &json!("new"))
        );
    }
}
