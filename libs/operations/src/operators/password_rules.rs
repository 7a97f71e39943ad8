//! Rules for the passwords of operators.

use domain::Problem;
use zxcvbn::{Score, zxcvbn};

use super::SignInError;

/// Minimum and maximum number of characters of a password.
pub const PASSWORD_LENGTH: (usize, usize) = (12, 128);

pub(super) fn no_password() -> Problem {
    let (least, most) = PASSWORD_LENGTH;
    let message = format!("The password must have {least} to {most} characters.");
    Problem::new("password", "invalid_password", message)
}

pub(super) fn check_password(password: &str, email: &str) -> Result<(), SignInError> {
    let (least, most) = PASSWORD_LENGTH;
    let lower = password.to_lowercase();
    let problem = if !(least..=most).contains(&password.chars().count()) {
        no_password()
    } else if email.split('@').any(|part| part.len() > 2 && lower.contains(part)) {
        let message = "The password must not contain a part of the email address.";
        Problem::new("password", "password_contains_email", message)
    } else if is_easy(password, email) {
        let message = "The password is easy to guess: use a few unrelated words.";
        Problem::new("password", "common_password", message)
    } else {
        return Ok(());
    };
    Err(SignInError::Invalid(vec![problem]))
}

/// Returns true for common passwords, also in variants, and for those that consist of names, dates, sequences or rows of keys.
fn is_easy(password: &str, email: &str) -> bool {
    let parts: Vec<&str> = email.split(['@', '.']).chain(["tidings"]).collect();
    zxcvbn(password, &parts).score() < Score::Four
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_that_are_easy_to_guess_are_refused() {
        for refused in [
            "short",
            "passwordpassword",
            "password1234",
            "p@ssw0rd2026!",
            "1q2w3e4r5t6y",
            "Manchester1987",
            "monkey-dragon",
            "tidings-tidings",
            "qwertyuiop12",
            "123456789012",
            "aaaaaaaaaaaa",
            "Admin2026!!!!",
            "lovelace-is-my-name",
            "the example.com key",
        ] {
            assert!(check_password(refused, "lovelace@example.com").is_err(), "{refused}");
        }
        for accepted in
            ["correct horse battery staple", "Tr0ub4dor&3-xyz", "vier alte Katzen am Fluss", "kx7-Vm2q-Lp9w"]
        {
            assert!(check_password(accepted, "lovelace@example.com").is_ok(), "{accepted}");
        }
        let longest = "ab cd ef gh ".repeat(11);
        assert!(check_password(&longest, "lovelace@example.com").is_err());
    }
}
