//! Secret values in librdkafka settings, and their removal from texts.

use std::sync::Arc;

use crate::operator_text::one_line;

/// A setting is secret if its name contains one of these parts.
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

/// The secret values of a configuration.
#[derive(Clone)]
pub(super) struct Secrets(Arc<[String]>);

impl Secrets {
    pub(super) fn of(settings: &[(String, String)]) -> Self {
        let is_secret = |name: &str| SECRET_NAME_PARTS.iter().any(|part| name.contains(part));
        let secrets = settings.iter().filter(|(name, value)| is_secret(name) && !value.is_empty());
        Self(secrets.map(|(_, value)| value.clone()).collect())
    }

    /// Replaces every secret in the text by `…`, and cuts the text to one line.
    pub(super) fn redact(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in self.0.iter() {
            text = text.replace(secret.as_str(), "…");
        }
        one_line(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_settings_are_recognised_by_name() {
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
