//! Code with colours: JSON and shell commands.

use crate::layout::escape;

/// Marks up a code block.
pub(crate) fn code(language: &str, text: &str) -> String {
    match language {
        "json" => json(text),
        "sh" => text.lines().map(shell_line).collect::<Vec<_>>().join("\n"),
        _ => escape(text),
    }
}

/// Marks up JSON: keys, strings, and other values. Text that is not JSON stays readable.
pub(crate) fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut rest = text;
    while let Some(start) = rest.find('"') {
        let (before, from) = rest.split_at(start);
        out.push_str(&escape(before));
        let end = end_of_string(from);
        let (string, after) = from.split_at(end);
        let class = if after.trim_start().starts_with(':') { "k" } else { "s" };
        out.push_str(&format!("<span class={class}>{}</span>", escape(string)));
        rest = after;
    }
    out.push_str(&escape(rest));
    out
}

/// Returns the length of the JSON string at the beginning of `text`.
fn end_of_string(text: &str) -> usize {
    let mut is_escaped = false;
    for (index, letter) in text.char_indices().skip(1) {
        match letter {
            '"' if !is_escaped => return index + 1,
            _ => is_escaped = letter == '\\' && !is_escaped,
        }
    }
    text.len()
}

fn shell_line(line: &str) -> String {
    let comment = if line.starts_with("# ") { Some(0) } else { line.find("  # ") };
    match comment {
        Some(start) => {
            let (command, comment) = line.split_at(start);
            format!("{}<span class=c>{}</span>", escape(command), escape(comment))
        }
        None => escape(line),
    }
}

#[cfg(test)]
mod tests {
    use super::{code, json};

    #[test]
    fn keys_and_strings_of_json_are_marked() {
        assert_eq!(
            json(r#"{"a": "<\"b", "c": 1}"#),
            "{<span class=k>&quot;a&quot;</span>: <span class=s>&quot;&lt;\\&quot;b&quot;</span>, <span class=k>&quot;c&quot;</span>: 1}"
        );
        assert_eq!(json("{\"a"), "{<span class=s>&quot;a</span>");
    }

    #[test]
    fn comments_of_commands_are_marked() {
        assert_eq!(
            code("sh", "# Once\nls  # all"),
            "<span class=c># Once</span>\nls<span class=c>  # all</span>"
        );
        assert_eq!(code("toml", "a < b"), "a &lt; b");
    }
}
