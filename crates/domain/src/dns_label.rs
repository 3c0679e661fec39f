//! Names of one label of the domain name system (RFC 1123), as Kubernetes has them.

pub(crate) fn is_dns_label(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty()
        && text.len() <= 63
        && text.chars().all(plain)
        && !text.starts_with('-')
        && !text.ends_with('-')
}
