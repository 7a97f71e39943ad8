/// Quotes a text for a shell, if necessary.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-:@+".contains(&byte);
    let needs_none = !text.is_empty() && text.bytes().all(is_plain);
    if needs_none { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn only_text_that_a_shell_would_change_is_quoted() {
        assert_eq!(quoted("/var/tmp/x-1"), "/var/tmp/x-1");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
