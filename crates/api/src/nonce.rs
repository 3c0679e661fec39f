//! The nonce by which a caller recognizes the answer to its request.
//!
//! A network may return the answer to another request, or deliver a request twice. A caller
//! generates a nonce for each request ([`NONCE_HEADER`]). Every answer of Canyon repeats it ([`ANSWER_NONCE_HEADER`]),
//! and Canyon refuses a change with a nonce that it has seen before.

/// Header of a request with its nonce: 1 to 64 letters, digits, `-` and `_`.
pub const NONCE_HEADER: &str = "canyon-ask";

/// Header of the answer with the nonce of its request.
pub const ANSWER_NONCE_HEADER: &str = "canyon-answer-to";

/// `details.code` of the refusal (409) of a change whose nonce was used before.
pub const REPEATED: &str = "repeated";

/// Whether a text is a valid nonce.
pub fn is_valid(nonce: &str) -> bool {
    let plain = |c: u8| c.is_ascii_alphanumeric() || b"-_".contains(&c);
    (1..=64).contains(&nonce.len()) && nonce.bytes().all(plain)
}

/// A new nonce.
pub fn generate() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}
