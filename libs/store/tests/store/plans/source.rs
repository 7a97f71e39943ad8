//! The statements of this crate, read from its source: new ones are included without registration.

use std::collections::HashMap;
use std::path::Path;

/// A statement and its file.
pub(super) struct Statement {
    pub(super) file: String,
    pub(super) sql: String,
}

/// `macro_rules!` macros whose body is text, by name: names of the parameters, and the body.
type Macros = HashMap<String, (Vec<String>, String)>;

/// All statements of `libs/store/src`, with their macros expanded.
pub(super) fn statements() -> Vec<Statement> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&root, &root, &mut files);
    files.sort();
    let mut macros = Macros::new();
    for (_, text) in &files {
        read_macros(text, &mut macros);
    }
    let mut found = Vec::new();
    for (file, text) in &files {
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            let is_start = rest.starts_with('"')
                || starts_call(rest, "concat").is_some()
                || macros.keys().any(|name| starts_call(rest, name).is_some());
            let before = text[..at].chars().next_back().unwrap_or(' ');
            if rest.starts_with("//") {
                at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("'\"'") {
                at += 3;
            } else if is_start && !before.is_alphanumeric() && before != '_' {
                let (sql, used) = expression(rest, &macros, &HashMap::new());
                let is_sql = ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH"]
                    .iter()
                    .any(|verb| sql.trim_start().starts_with(&format!("{verb} ")));
                // A text with an unexpanded macro parameter is a template; it is collected where the macro is used.
                if is_sql && !sql.contains('\u{0}') {
                    found.push(Statement { file: file.clone(), sql });
                }
                at += used;
            } else {
                at += rest.chars().next().map_or(1, char::len_utf8);
            }
        }
    }
    found
}

fn collect(root: &Path, directory: &Path, files: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, files);
        } else {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            files.push((name, std::fs::read_to_string(&path).unwrap()));
        }
    }
}

fn read_macros(text: &str, macros: &mut Macros) {
    for part in text.split("macro_rules! ").skip(1) {
        let name = part.split([' ', '{']).next().unwrap().to_owned();
        let Some((head, body)) = part.split_once("=> {") else { continue };
        let parameters =
            head.split('$').skip(1).map(|rest| rest.split(':').next().unwrap().to_owned()).collect();
        let body = body.trim_start();
        if body.starts_with('"') || body.starts_with("concat!") {
            macros.insert(name, (parameters, body.to_owned()));
        }
    }
}

/// Length of `name!(`, if the text begins with it.
fn starts_call(text: &str, name: &str) -> Option<usize> {
    text.strip_prefix(name)?.starts_with("!(").then_some(name.len() + 2)
}

/// Reads a literal, a `concat!` or a macro call. Returns its text and its length in the source.
fn expression(text: &str, macros: &Macros, values: &HashMap<String, String>) -> (String, usize) {
    if text.starts_with('"') {
        return literal(text);
    }
    if let Some(parameter) = text.strip_prefix('$') {
        let length = parameter.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap();
        let value = values.get(&parameter[..length]).cloned().unwrap_or_else(|| "\u{0}".to_owned());
        return (value, length + 1);
    }
    if let Some(start) = starts_call(text, "concat") {
        let (parts, used) = arguments(&text[start..], macros, values);
        return (parts.concat(), start + used);
    }
    for (name, (parameters, body)) in macros {
        if let Some(start) = starts_call(text, name) {
            let (given, used) = arguments(&text[start..], macros, values);
            let values = parameters.iter().cloned().zip(given).collect();
            return (expression(body, macros, &values).0, start + used);
        }
    }
    ("\u{0}".to_owned(), text.chars().next().map_or(1, char::len_utf8))
}

/// Reads arguments up to and including the closing parenthesis.
fn arguments(text: &str, macros: &Macros, values: &HashMap<String, String>) -> (Vec<String>, usize) {
    let (mut parts, mut at) = (Vec::new(), 0);
    loop {
        let rest = &text[at..];
        match rest.chars().next() {
            None | Some(')') => return (parts, at + 1),
            Some(c) if c.is_whitespace() || c == ',' => at += c.len_utf8(),
            Some('/') => at += rest.find('\n').unwrap(),
            Some(_) => {
                let (part, used) = expression(rest, macros, values);
                parts.push(part);
                at += used;
            }
        }
    }
}

fn literal(text: &str) -> (String, usize) {
    let (mut value, mut characters) = (String::new(), text.char_indices().skip(1));
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return (value, at + 1),
            '\\' => match characters.next().map(|(_, escaped)| escaped) {
                Some('n') => value.push('\n'),
                Some('\n') => {}
                Some(escaped) => value.push(escaped),
                None => break,
            },
            c => value.push(c),
        }
    }
    (value, text.len())
}
