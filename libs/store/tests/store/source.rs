//! The SQL statements of this crate, read from its source, so that new statements are tested automatically. A statement is
//! either a `.sql` file or a string that starts with an SQL verb. The string may be put together with `concat!`, `+` or a
//! macro of the crate.

use std::collections::HashMap;
use std::path::Path;

/// A statement and the file that contains it.
pub(crate) struct Statement {
    pub(crate) file: String,
    pub(crate) sql: String,
}

/// Macros of this crate that expand to a string or to a query with a string. The key is the macro's name. The value contains
/// the names of its parameters, and its body from the start of the string.
type Macros = HashMap<String, (Vec<String>, String)>;

/// Returns all statements of `libs/store/src`, with their macros expanded.
pub(crate) fn statements() -> Vec<Statement> {
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
        if file.ends_with(".sql") {
            found.push(Statement { file: file.clone(), sql: text.clone() });
            continue;
        }
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            let is_start = starts_literal(rest)
                || starts_call(rest, "concat").is_some()
                || macros.keys().any(|name| starts_call(rest, name).is_some());
            let before = text[..at].chars().next_back().unwrap_or(' ');
            if rest.starts_with("//") {
                at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("'\"'") {
                at += 3;
            } else if is_start && !before.is_alphanumeric() && before != '_' {
                let (sql, used) = sum(rest, &macros, &HashMap::new());
                let is_sql = ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH"]
                    .iter()
                    .any(|verb| sql.trim_start().starts_with(&format!("{verb} ")));
                // Skip a string that contains a macro parameter. The complete statement is found at each call of the macro.
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
        let mut body = body.trim_start();
        if body.starts_with("sqlx::query") {
            // Look for a string only before the first parameter. If the statement is a parameter, the search finds it in the
            // calls of the macro.
            let start = &body[..body.find(['$', ')']).unwrap_or(body.len())];
            let literal = start.char_indices().map(|(at, _)| at).find(|at| starts_literal(&body[*at..]));
            body = &body[literal.unwrap_or(body.len())..];
        }
        if starts_literal(body) || body.starts_with("concat!") {
            macros.insert(name, (parameters, body.to_owned()));
        }
    }
}

/// Returns the length of `name!(` if the text begins with it.
fn starts_call(text: &str, name: &str) -> Option<usize> {
    text.strip_prefix(name)?.starts_with("!(").then_some(name.len() + 2)
}

/// Returns true if the text begins with a plain or raw string literal.
fn starts_literal(text: &str) -> bool {
    text.starts_with('"') || text.starts_with("r\"") || text.starts_with("r#\"")
}

/// Reads expressions that are joined by `+`. Returns the joined string and the length of the expressions in the source.
fn sum(text: &str, macros: &Macros, values: &HashMap<String, String>) -> (String, usize) {
    let (mut sql, mut at) = expression(text, macros, values);
    loop {
        let rest = text[at..].trim_start();
        let Some(rest) = rest.strip_prefix('+') else { return (sql, at) };
        let start = text.len() - rest.trim_start().len();
        let (part, used) = expression(&text[start..], macros, values);
        sql += &part;
        at = start + used;
    }
}

/// Reads a literal, a `concat!` or a macro call. Returns the string that it stands for and its length in the source.
fn expression(text: &str, macros: &Macros, values: &HashMap<String, String>) -> (String, usize) {
    if starts_literal(text) {
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
            return (sum(body, macros, &values).0, start + used);
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
    for (opening, closing) in [("r\"", "\""), ("r#\"", "\"#")] {
        if let Some(raw) = text.strip_prefix(opening) {
            let length = raw.find(closing).unwrap_or(raw.len());
            return (raw[..length].to_owned(), opening.len() + length + closing.len());
        }
    }
    let (mut value, mut characters) = (String::new(), text.char_indices().skip(1));
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return (value, at + 1),
            '\\' => match characters.next().map(|(_, escaped)| escaped) {
                Some('n') => value.push('\n'),
                // The line break and the indentation of the next line are not part of the text.
                Some('\n') => {
                    let indentation = text[at + 2..].len() - text[at + 2..].trim_start().len();
                    characters.by_ref().take(indentation).for_each(drop);
                }
                Some(escaped) => value.push(escaped),
                None => break,
            },
            c => value.push(c),
        }
    }
    (value, text.len())
}
