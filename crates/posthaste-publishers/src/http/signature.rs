//! Request signatures (Standard Webhooks, HMAC-SHA256), by which the receiver verifies the sender.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

/// The prefix of signing keys.
const KEY_PREFIX: &str = "whsec_";

/// The permitted size of a key.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A key that publisher and receiver share.
#[derive(Clone)]
pub(super) struct SigningKey(Hmac<Sha256>);

/// The text is not a signing key. The error does not quote it: it is probably a mistyped key.
#[derive(Debug, thiserror::Error)]
#[error(
    "a signing key is whsec_ and 24 to 64 bytes in base64: make one with `echo whsec_$(openssl rand -base64 32)`"
)]
pub(super) struct InvalidSigningKey;

impl SigningKey {
    pub(super) fn parse(text: &str) -> Result<Self, InvalidSigningKey> {
        let base64 = text.strip_prefix(KEY_PREFIX).ok_or(InvalidSigningKey)?;
        let key = STANDARD.decode(base64).map_err(|_| InvalidSigningKey)?;
        if !KEY_BYTES.contains(&key.len()) {
            return Err(InvalidSigningKey);
        }
        Hmac::new_from_slice(&key).map(Self).map_err(|_| InvalidSigningKey)
    }

    /// Returns `v1,` and the HMAC, in base64, of id, Unix time and body, joined by dots.
    pub(super) fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        let mut code = self.0.clone();
        code.update(format!("{id}.{timestamp}.").as_bytes());
        code.update(body);
        format!("v1,{}", STANDARD.encode(code.finalize().into_bytes()))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // S8: the example in the documentation of Standard Webhooks, verified with Python's hmac.
    #[test]
    fn signature_is_that_of_the_standards_example() {
        let key = SigningKey::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a key");
        let signature = key.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn every_part_of_a_message_is_signed() {
        let key = SigningKey::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a key");
        let signed = key.sign("a", 1, b"x");
        for other in [key.sign("b", 1, b"x"), key.sign("a", 2, b"x"), key.sign("a", 1, b"y")] {
            assert_ne!(signed, other);
        }
    }

    #[test]
    fn text_that_is_not_a_key_is_refused_and_not_shown() {
        for text in [
            "",
            "whsec_",
            "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "whsec_s3ntinel!",
            "whsec_dG9vIHNob3J0",
            &format!("whsec_{}", "A".repeat(88)),
        ] {
            let error = SigningKey::parse(text).expect_err(text).to_string();
            assert!(!error.contains("s3ntinel"), "{error}");
        }
    }
}
