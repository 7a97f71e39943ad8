//! Signing in by an OpenID provider.

use std::collections::BTreeMap;

use credentials::secrets::{random_token, sha256};
use domain::{AppId, Role, Timestamp};
use service_kit::config::RoleRule;
use store::control::operator::identity::{NotSignedIn, ProvenIdentity};
use store::control::operator::session::NewSession;

use super::{Client, SignInError, SignIns, TOKEN_BYTES, is_email, normal, session_of};
use crate::OperationError;
use crate::waiting::database;

/// A person, as the tokens of an OpenID provider describe them. The caller has verified the tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderPerson {
    pub issuer: String,
    pub subject: String,
    pub email: String,
    /// False unless the provider says that it verified the address.
    pub is_email_verified: bool,
    /// Time at which the provider authenticated the person.
    pub authenticated_at: Option<Timestamp>,
    /// Values of the claim that gives roles.
    pub groups: Vec<String>,
}

/// Conditions and roles of sign-ins by an OpenID provider.
#[derive(Clone, Debug, Default)]
pub struct ProviderPolicy {
    /// Domains of email addresses. Empty: all.
    pub allowed_domains: Vec<String>,
    /// Empty: claims give no roles.
    pub rules: Vec<RoleRule>,
}

impl SignIns {
    /// Signs a person in. Returns the token of a new session.
    ///
    /// # Errors
    /// Refuses unverified addresses, addresses of other domains or beyond ASCII, and people who are no operators and get no role from a rule.
    pub async fn sign_person_in(
        &self,
        person: &ProviderPerson,
        policy: &ProviderPolicy,
        client: &Client,
    ) -> Result<String, SignInError> {
        let email = checked_email(&person.email, person.is_email_verified, &policy.allowed_domains)?;
        let roles = self.roles_of(&person.groups, &policy.rules).await?;
        let token = random_token("", TOKEN_BYTES).map_err(OperationError::from)?;
        let (digest, network) = (sha256(token.as_bytes()), client.address.network());
        let session = NewSession {
            authenticated_at: person.authenticated_at,
            ..session_of(&digest, "oidc", client, &network)
        };
        let identity =
            ProvenIdentity { issuer: &person.issuer, subject: &person.subject, email: &email, roles: &roles };
        let signed_in = database(self.store.control().sign_identity_in(&identity, &session)).await?;
        signed_in.map(|_| token).map_err(|reason| match reason {
            NotSignedIn::NoOperator | NotSignedIn::Disabled => SignInError::NotAnOperator,
            NotSignedIn::OtherIdentity => SignInError::OtherIdentity,
        })
    }

    /// Returns the highest role for each app that the groups of a person give.
    async fn roles_of(
        &self,
        groups: &[String],
        rules: &[RoleRule],
    ) -> Result<Vec<(Option<AppId>, Role)>, OperationError> {
        let mut roles = BTreeMap::new();
        for rule in rules.iter().filter(|rule| groups.contains(&rule.group)) {
            let app = match &rule.app {
                None => None,
                Some(name) => match database(self.store.control().app_by_name_or_id(name)).await? {
                    Some(app) => Some(app.id),
                    None => {
                        tracing::warn!(
                            app = name,
                            "console.oidc.role_map names an app that does not exist; the rule gives no role"
                        );
                        continue;
                    }
                },
            };
            let role = roles.entry(app.map(|app| app.0)).or_insert(rule.role);
            *role = rule.role.max(*role);
        }
        Ok(roles.into_iter().map(|(app, role)| (app.map(AppId), role)).collect())
    }
}

/// Returns the normal form of an address that may sign in.
fn checked_email(email: &str, is_verified: bool, domains: &[String]) -> Result<String, SignInError> {
    // In lower case, a few other letters are ASCII, such as the sign of Kelvin: another person's address would be the operator's.
    if !email.is_ascii() {
        return Err(SignInError::NotAscii);
    }
    let email = normal(email);
    if !is_verified || !is_email(&email) {
        return Err(SignInError::UnverifiedEmail);
    }
    let domain = email.rsplit_once('@').map_or("", |(_, domain)| domain);
    if domains.is_empty() || domains.iter().any(|allowed| allowed.eq_ignore_ascii_case(domain)) {
        Ok(email)
    } else {
        Err(SignInError::ForeignDomain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_verified_addresses_of_an_allowed_domain_sign_in() {
        let own = ["Example.com".to_owned()];
        assert_eq!(checked_email("Ada@Example.com", true, &own).unwrap(), "ada@example.com");
        assert!(checked_email("ada@example.org", true, &[]).is_ok());
        for (email, is_verified) in [("ada@example.com", false), ("ada", true), ("", true)] {
            let refused = checked_email(email, is_verified, &own);
            assert!(matches!(refused, Err(SignInError::UnverifiedEmail)), "{email}");
        }
        for foreign in
            ["ada@example.org", "ada@evil-example.com", "ada@sub.example.com", "a@example.com@evil.org"]
        {
            let refused = checked_email(foreign, true, &own);
            assert!(matches!(refused, Err(SignInError::ForeignDomain)), "{foreign}");
        }
    }

    #[test]
    fn addresses_that_only_look_like_those_of_operators_are_refused() {
        assert_eq!(normal("\u{212a}ate@example.com"), "kate@example.com", "the sign of Kelvin");
        for email in ["\u{212a}ate@example.com", "kate@\u{212a}iosk.example.com", "k\u{e4}te@example.com"] {
            assert!(matches!(checked_email(email, true, &[]), Err(SignInError::NotAscii)), "{email}");
        }
    }
}
