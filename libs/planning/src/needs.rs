//! Variables that a text cannot do without: if one is missing, every rendering of the text has a gap.

use std::collections::{BTreeMap, BTreeSet};

use domain::content::Object;
use domain::{Channel, SendRequest, TemplateProfile};
use minijinja::machinery::ast::{BinOpKind, CallArg, Expr, Stmt};
use minijinja::machinery::parse;
use minijinja::syntax::SyntaxConfig;
use serde_json::Value;

use crate::check::texts;
use crate::growth;

/// Variables that Tidings sets, whatever the data of a send has.
const FACTS: [&str; 2] = ["app", "category"];
/// Variable with the recipient's profile, which Tidings also sets.
const RECIPIENT: &str = "recipient";
/// Member that each recipient has.
const IDENTIFIER: &str = "recipient.identifier";
/// Functions and variables of the engine.
const OF_ENGINE: [&str; 5] = ["range", "dict", "debug", "namespace", "loop"];
/// Longest path of a variable, in bytes.
const LONGEST: usize = 128;
/// Maximum number of variables that are looked for in data, and in profiles. Each recipient is compared with all of them, and may lack all
/// of them.
const MOST: usize = 50;

/// Paths of variables, such as `order.total`.
type Needs = BTreeSet<String>;

/// Variables that the texts of a template version need, by the name of the text.
#[derive(Debug, Default)]
pub struct TemplateNeeds {
    data: Vec<(String, Needs)>,
    /// Members of `recipient`.
    profile: Vec<(String, Needs)>,
}

impl TemplateNeeds {
    /// Parses the texts, which takes as long as compiling them; callers keep the result.
    #[must_use]
    pub fn of(channels: &Value) -> TemplateNeeds {
        let mut found = TemplateNeeds::default();
        let mut left = [MOST; 2];
        for (name, text) in texts(channels) {
            let (profile, data) = needs(&text).into_iter().partition(|path| is_of_profile(path));
            let kinds: [(Needs, _); 2] = [(data, &mut found.data), (profile, &mut found.profile)];
            for ((needed, found), left) in kinds.into_iter().zip(&mut left) {
                let needed: Needs = needed.into_iter().take(*left).collect();
                *left -= needed.len();
                if !needed.is_empty() {
                    found.push((name.clone(), needed));
                }
            }
        }
        found
    }

    /// Returns the variables that the send lacks for a recipient whose own data is `own`, each with the first text that needs it. Ignores
    /// texts that the send does not render: those of channels that it does not select, and those that it replaces.
    #[must_use]
    pub fn missing(&self, send: &SendRequest, own: &Object) -> BTreeMap<&str, &str> {
        first_texts(&self.data, send, |path| is_missing(path, [own, &send.content.data]))
    }

    /// Returns the variables that a profile lacks, or that templates of the app do not see. Ignores the same texts as
    /// [`missing`](Self::missing).
    #[must_use]
    pub fn missing_in_profile(
        &self,
        send: &SendRequest,
        profile: &Object,
        seen: TemplateProfile,
    ) -> BTreeMap<&str, &str> {
        first_texts(&self.profile, send, |path| {
            let key = path.strip_prefix("recipient.").unwrap_or_default();
            path != IDENTIFIER && (!seen.shows(key) || is_missing(key, [profile]))
        })
    }
}

/// Returns the variables that are missing, each with the first rendered text that needs it.
fn first_texts<'a>(
    needed: &'a [(String, Needs)],
    send: &SendRequest,
    is_missing: impl Fn(&str) -> bool,
) -> BTreeMap<&'a str, &'a str> {
    let mut missing = BTreeMap::new();
    for (text, needed) in needed.iter().filter(|(text, _)| is_rendered(send, text)) {
        for path in needed.iter().filter(|path| is_missing(path)) {
            missing.entry(path.as_str()).or_insert(text.as_str());
        }
    }
    missing
}

fn is_of_profile(path: &str) -> bool {
    path.split('.').next() == Some(RECIPIENT)
}

fn is_rendered(send: &SendRequest, text: &str) -> bool {
    let (channel, field) = text.split_once('.').unwrap_or((text, ""));
    let Ok(channel) = channel.parse::<Channel>() else { return false };
    if send.channels.as_ref().is_some_and(|selected| !selected.contains(&channel)) {
        return false;
    }
    let is_replaced = match channel {
        Channel::Email => send.overrides.email().is_some_and(|own| match field {
            "subject" => own.subject.is_some(),
            _ => own.has_body(),
        }),
        Channel::Sms => send.overrides.sms.as_ref().is_some_and(|own| own.text.is_some()),
        Channel::WebPush | Channel::MobilePush => send.overrides.push(channel).is_some_and(|own| {
            let own = match field {
                "title" => &own.title,
                "body" => &own.body,
                "icon" => &own.icon,
                _ => &own.url,
            };
            own.is_some()
        }),
        _ => false,
    };
    !is_replaced
}

/// Returns the variables that every rendering of the text outputs or repeats over. A variable with a `default`, in a condition, or in only
/// one branch of a condition is not needed.
fn needs(text: &str) -> Needs {
    // The parser recurses, so texts that nest too deeply are left out, as in `bound`.
    if growth::bound(text).is_err() {
        return Needs::new();
    }
    let Ok(Stmt::Template(template)) = parse(text, "text", SyntaxConfig::default()) else {
        return Needs::new();
    };
    Walk::default().statements(&template.children)
}

/// Returns true if no value in `objects` has this path. A value that is no object may have any members, because filters and
/// methods can read them.
fn is_missing<const N: usize>(path: &str, objects: [&Object; N]) -> bool {
    let mut segments = path.split('.');
    let first = segments.next().unwrap_or_default();
    // The data of a recipient replaces members of the send's data as a whole.
    let Some(mut value) = objects.into_iter().find_map(|object| object.get(first)) else { return true };
    for segment in segments {
        match value {
            Value::Object(members) => match members.get(segment) {
                Some(member) => value = member,
                None => return true,
            },
            _ => return false,
        }
    }
    false
}

#[derive(Clone, Default)]
struct Walk<'a> {
    /// Variables that the text sets, each with what its value needs.
    set: BTreeMap<&'a str, Needs>,
}

impl<'a> Walk<'a> {
    fn statements(&mut self, statements: &[Stmt<'a>]) -> Needs {
        statements.iter().flat_map(|statement| self.statement(statement)).collect()
    }

    fn statement(&mut self, statement: &Stmt<'a>) -> Needs {
        match statement {
            Stmt::EmitExpr(emit) => self.value(&emit.expr),
            Stmt::Template(template) => self.statements(&template.children),
            Stmt::AutoEscape(escape) => self.statements(&escape.body),
            Stmt::IfCond(choice) => {
                let (mut chosen, mut otherwise) = (self.clone(), self.clone());
                let needed = chosen.statements(&choice.true_body);
                let needed: Needs =
                    needed.intersection(&otherwise.statements(&choice.false_body)).cloned().collect();
                // A variable that only a branch sets may be unset afterwards.
                let in_branches = chosen.set.into_keys().chain(otherwise.set.into_keys());
                for name in in_branches.filter(|name| !self.set.contains_key(name)).collect::<Vec<_>>() {
                    self.set.insert(name, Needs::new());
                }
                needed
            }
            Stmt::ForLoop(each) if each.else_body.is_empty() => self.value(&each.iter),
            Stmt::WithBlock(with) => {
                let before = self.set.clone();
                with.assignments.iter().for_each(|(target, value)| self.set(target, value));
                let needed = self.statements(&with.body);
                self.set = before;
                needed
            }
            Stmt::Set(set) => {
                self.set(&set.target, &set.expr);
                Needs::new()
            }
            _ => Needs::new(),
        }
    }

    /// A variable that is set needs what its value needs, once it is output.
    fn set(&mut self, target: &Expr<'a>, value: &Expr<'a>) {
        match target {
            Expr::Var(variable) => {
                let needed = self.value(value);
                self.set.insert(variable.id, needed);
            }
            Expr::List(list) => list.items.iter().for_each(|item| self.set_anything(item)),
            Expr::Tuple(tuple) => tuple.items.iter().for_each(|item| self.set_anything(item)),
            other => self.set_anything(other),
        }
    }

    fn set_anything(&mut self, target: &Expr<'a>) {
        let mut target = target;
        while let Expr::GetAttr(member) = target {
            target = &member.expr;
        }
        if let Expr::Var(variable) = target {
            self.set.insert(variable.id, Needs::new());
        }
    }

    fn value(&self, expression: &Expr<'a>) -> Needs {
        if let Some(path) = path(expression) {
            return self.variable(&path);
        }
        match expression {
            Expr::GetAttr(member) => self.value(&member.expr),
            Expr::GetItem(item) => self.value(&item.expr),
            Expr::Slice(slice) => self.value(&slice.expr),
            Expr::Filter(filter) if matches!(filter.name, "default" | "d") => Needs::new(),
            Expr::Filter(filter) => {
                let input = filter.expr.as_ref().map(|input| self.value(input)).unwrap_or_default();
                input.into_iter().chain(self.arguments(&filter.args)).collect()
            }
            Expr::BinOp(operation) => {
                let [left, right] = [&operation.left, &operation.right].map(|operand| self.value(operand));
                match operation.op {
                    BinOpKind::ScOr => left.intersection(&right).cloned().collect(),
                    BinOpKind::Add
                    | BinOpKind::Sub
                    | BinOpKind::Mul
                    | BinOpKind::Div
                    | BinOpKind::FloorDiv
                    | BinOpKind::Rem
                    | BinOpKind::Pow
                    | BinOpKind::Concat => left.union(&right).cloned().collect(),
                    // Conditions.
                    _ => Needs::new(),
                }
            }
            Expr::IfExpr(choice) => {
                let otherwise = choice.false_expr.as_ref().map(|other| self.value(other)).unwrap_or_default();
                self.value(&choice.true_expr).intersection(&otherwise).cloned().collect()
            }
            Expr::Call(call) => {
                let of = match &call.expr {
                    Expr::GetAttr(method) => self.value(&method.expr),
                    _ => Needs::new(),
                };
                of.into_iter().chain(self.arguments(&call.args)).collect()
            }
            Expr::List(list) => self.all(&list.items),
            Expr::Tuple(tuple) => self.all(&tuple.items),
            Expr::Map(map) => self.all(&map.values),
            _ => Needs::new(),
        }
    }

    fn variable(&self, path: &str) -> Needs {
        let first = path.split('.').next().unwrap_or_default();
        match self.set.get(first) {
            Some(needed) => needed.clone(),
            None if FACTS.contains(&first) || OF_ENGINE.contains(&first) || path.len() > LONGEST => {
                Needs::new()
            }
            None if path == RECIPIENT => Needs::new(),
            None => Needs::from([path.to_owned()]),
        }
    }

    fn all(&self, items: &[Expr<'a>]) -> Needs {
        items.iter().flat_map(|item| self.value(item)).collect()
    }

    fn arguments(&self, arguments: &[CallArg<'a>]) -> Needs {
        let value = |argument: &CallArg<'a>| {
            let (CallArg::Pos(value)
            | CallArg::Kwarg(_, value)
            | CallArg::PosSplat(value)
            | CallArg::KwargSplat(value)) = argument;
            self.value(value)
        };
        arguments.iter().flat_map(value).collect()
    }
}

/// Returns the path of a variable or of its member, such as `order.total`; None for any other expression.
fn path(expression: &Expr<'_>) -> Option<String> {
    match expression {
        Expr::Var(variable) => Some(variable.id.to_owned()),
        Expr::GetAttr(member) => Some(format!("{}.{}", path(&member.expr)?, member.name)),
        Expr::GetItem(item) => {
            let Expr::Const(key) = &item.subscript_expr else { return None };
            let key = key.value.as_str().filter(|key| is_name(key))?;
            Some(format!("{}.{key}", path(&item.expr)?))
        }
        _ => None,
    }
}

fn is_name(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_every_rendering_needs_is_needed() {
        for (text, expected) in [
            ("Order {{ order }} of {{ shop.name }}", &["order", "shop.name"] as &[&str]),
            ("{{ shop['name'] }} {{ items[0].price }} {{ items[1:] }}", &["items", "shop.name"]),
            (
                "{{ recipient.app.name }} {{ recipient }} {{ app.name }} {{ category.name }}",
                &["recipient.app.name"],
            ),
            (
                "{{ recipient.name | default('you') }}{% if recipient.app %}{{ recipient.app.name }}{% endif %}",
                &[],
            ),
            ("{{ name | default('you') }} {{ name | d(other) }} {{ a | upper | default('-') }}", &[]),
            ("{{ name | upper }} {{ list | join(separator) }}", &["list", "name", "separator"]),
            ("{% if name is defined %}{{ name }}{% endif %}{% if a %}{{ b }}{% endif %}", &[]),
            ("{% if a %}{{ b }}{{ c }}{% else %}{{ c }}{{ d }}{% endif %}", &["c"]),
            ("{% if a %}{{ b }}{% elif c %}{{ b }}{% else %}{{ b }}{% endif %}", &["b"]),
            ("{% for item in items %}{{ item.name }}{{ currency }}{% endfor %}", &["items"]),
            ("{% for item in items %}{{ loop.index }}{% else %}none{% endfor %}", &[]),
            ("{% set who = user.name %}{% if who %}Hi {{ who }}{% endif %}", &[]),
            ("{% set who = user.name %}Hi {{ who }}", &["user.name"]),
            ("{% set who = user.name | default('you') %}Hi {{ who }}", &[]),
            ("{% if a %}{% set b = 1 %}{% endif %}{{ b }}", &[]),
            ("{% with t = order.total %}{{ t }}{% endwith %}{{ t }}", &["order.total", "t"]),
            ("{{ nick or name }} {{ a or 'b' }} {{ a and b }}", &[]),
            ("{{ name or name }}", &["name"]),
            ("{{ a if b else a }} {{ c if d }} {{ e is defined }} {{ not f }} {{ g == 1 }}", &["a"]),
            (
                "{{ price|float * count|int }} {{ a ~ b }} {{ [c, d] }}",
                &["a", "b", "c", "count", "d", "price"],
            ),
            ("{% for i in range(n) %}{{ i }}{% endfor %}", &["n"]),
            ("{{ broken", &[]),
            ("plain", &[]),
        ] {
            let found = needs(text);
            assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{text}");
        }
    }

    #[test]
    fn the_number_of_variables_is_bounded() {
        let text: String = (0..9_000).map(|number| format!("{{{{ v{number} }}}}")).collect();
        let profile = text.replace("{{ v", "{{ recipient.v");
        let needs =
            TemplateNeeds::of(&json!({"email": {"subject": text, "text": profile}, "sms": {"text": text}}));
        for needed in [needs.data, needs.profile] {
            assert_eq!(needed.iter().map(|(_, needed)| needed.len()).sum::<usize>(), MOST);
        }
    }

    #[test]
    fn a_variable_is_missing_only_if_no_data_can_have_it() {
        let Value::Object(data) = json!({"order": {"id": 7, "total": null}, "items": ["a"], "text": "x"})
        else {
            panic!()
        };
        let Value::Object(own) = json!({"name": "Ada", "text": {}}) else { panic!() };
        let missing = |path| is_missing(path, [&own, &data]);
        for present in ["order", "order.id", "order.total", "order.id.x", "items", "items.first", "name"] {
            assert!(!missing(present), "{present}");
        }
        for absent in ["orders", "order.date", "Order", "text.x", ""] {
            assert!(missing(absent), "{absent}");
        }
    }
}
