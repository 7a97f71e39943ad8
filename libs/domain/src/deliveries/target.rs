/// Masks a target but keeps enough to recognise it: `a***@example.com`, `fcm:d***`, `+***42`, `https://push.example/***`.
#[must_use]
pub fn masked(target: &str) -> String {
    let first = |text: &str| text.chars().next().map(String::from).unwrap_or_default();
    if let Some((scheme, rest)) = target.split_once("://") {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        return format!("{scheme}://{host}/***");
    }
    if let Some((local, domain)) = target.rsplit_once('@') {
        return format!("{}***@{domain}", first(local));
    }
    if let Some(digits) = target.strip_prefix('+') {
        let last: Vec<char> = digits.chars().rev().take(2).collect();
        return format!("+***{}", last.into_iter().rev().collect::<String>());
    }
    match target.split_once(':') {
        Some((service, token)) => format!("{service}:{}***", first(token)),
        None => format!("{}***", first(target)),
    }
}

#[cfg(test)]
mod tests {
    use super::masked;

    #[test]
    fn a_masked_target_reveals_neither_the_person_nor_the_token() {
        let cases = [
            ("ada@example.com", "a***@example.com"),
            ("\"a@b\"@example.com", "\"***@example.com"),
            ("+4915112345678", "+***78"),
            ("fcm:abcdef", "fcm:a***"),
            ("https://push.example/v2/abc?d@e", "https://push.example/***"),
            ("https://fcm.googleapis.com/fcm/send/a:b@c", "https://fcm.googleapis.com/***"),
            ("https://push.example?a@b", "https://push.example/***"),
            ("token", "t***"),
            ("", "***"),
        ];
        for (target, expected) in cases {
            assert_eq!(masked(target), expected);
        }
    }
}
