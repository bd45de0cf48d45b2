//! Secrets in the settings of librdkafka, and texts without them.

use std::sync::Arc;

use crate::unsendable::Unsendable;

/// Settings whose names have such a part hold what nobody may read.
const SECRET_NAME_PARTS: &[&str] = &[
    "password",
    "passphrase",
    "secret",
    "token",
    "jaas",
    "key.pem",
    "certificate.pem",
    "oauthbearer.config",
];

/// What must stand in no text, and how a text becomes one line.
#[derive(Clone)]
pub(super) struct Secrets(Arc<[String]>);

impl Secrets {
    pub(super) fn of(settings: &[(String, String)]) -> Self {
        let is_secret = |name: &str| SECRET_NAME_PARTS.iter().any(|part| name.contains(part));
        let secrets = settings.iter().filter(|(name, value)| is_secret(name) && !value.is_empty());
        Self(secrets.map(|(_, value)| value.clone()).collect())
    }

    pub(super) fn redact(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in self.0.iter() {
            text = text.replace(secret.as_str(), "…");
        }
        Unsendable::new(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_secret_is_known_by_its_name() {
        for name in [
            "sasl.password",
            "ssl.key.password",
            "ssl.key.pem",
            "sasl.oauthbearer.client.secret",
            "sasl.oauthbearer.assertion.private.key.passphrase",
            "some.token",
            "sasl.jaas.config",
        ] {
            let secrets = Secrets::of(&[(name.to_owned(), "s3ntinel".to_owned())]);
            assert_eq!(secrets.redact("it is s3ntinel"), "it is …", "{name}");
        }
    }
}
