//! SHA-256 of the page's script and style, as a content security policy names them.
//!
//! Leaves out the policy (`mod.rs`).

use data_encoding::BASE64;
use sha2::{Digest as _, Sha256};

/// `sha256-…`, the source expression of a text (W3C, Content Security Policy Level 3, `hash-source`).
pub fn source(text: &str) -> String {
    format!("sha256-{}", BASE64.encode(&Sha256::digest(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::source;

    /// As `printf … | openssl dgst -sha256 -binary | base64` says.
    #[test]
    fn known_digests() {
        assert_eq!(source(""), "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
        assert_eq!(source("abc"), "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
    }
}
