use crate::Problem;
use crate::fields::MAX_IDENTIFIER;

/// Accepts 1 to 255 of the characters `A-Z a-z 0-9 : . _ -`, but not `.` or `..`, which clients remove from the paths of URLs (RFC 3986,
/// section 5.2.4).
#[must_use]
pub fn is_topic_identifier(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b":._-".contains(&byte);
    (1..=MAX_IDENTIFIER).contains(&text.len()) && text.bytes().all(is_allowed) && ![".", ".."].contains(&text)
}

pub fn check_topic_identifier(path: &str, text: String, problems: &mut Vec<Problem>) -> Option<String> {
    if is_topic_identifier(&text) {
        return Some(text);
    }
    let message = format!(
        "{path} must be 1 to {MAX_IDENTIFIER} of the characters A-Z a-z 0-9 : . _ - to identify a topic, and not . or .."
    );
    problems.push(Problem::new(path, "invalid_topic", message));
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_identifiers_have_plain_characters_and_a_limited_length() {
        let longest = "x".repeat(MAX_IDENTIFIER);
        for topic in ["news", "A-z_0.9:x", "7", "-", &longest] {
            assert!(is_topic_identifier(topic), "{topic}");
        }
        let too_long = "x".repeat(MAX_IDENTIFIER + 1);
        for other in ["", ".", "..", " ", "a b", "a/b", "é", "a\0", "a,b", "a%20b", "news ", &too_long] {
            assert!(!is_topic_identifier(other), "{other:?}");
        }
    }

    #[test]
    fn the_problem_of_an_invalid_identifier_names_the_rule() {
        let mut problems = Vec::new();
        assert_eq!(
            check_topic_identifier("topic", "news".to_owned(), &mut problems).as_deref(),
            Some("news")
        );
        assert_eq!(check_topic_identifier("topic", "a b".to_owned(), &mut problems), None);
        let [problem] = problems.as_slice() else { panic!("{problems:?}") };
        assert_eq!((problem.field.as_str(), problem.code), ("topic", "invalid_topic"));
        assert!(
            problem.message.contains("1 to 255 of the characters A-Z a-z 0-9 : . _ -"),
            "{}",
            problem.message
        );
    }
}
