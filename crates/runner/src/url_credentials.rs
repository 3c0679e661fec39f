//! Masks user names and passwords in addresses (`https://user:password@host/`), because other programs repeat
//! them in their errors: OpenTofu 1.12 prints the `source` of a module unchanged.

/// The longest user information that is recognized, in bytes.
const LONGEST: usize = 512;
/// How many bytes of an address a cut may affect: the scheme counts too.
pub const REACH: usize = LONGEST + "https://".len();

/// Overwrites the credentials of each address in `bytes` with `*`. The length stays.
///
/// A user name without a password is overwritten only in an address of HTTP, where it may be a token: in
/// `ssh://git@host` it is not a secret.
pub fn hide(bytes: &mut [u8]) {
    let mut from = 0;
    while let Some(at) = bytes[from..].windows(3).position(|window| window == b"://") {
        let scheme_end = from + at;
        let begin = scheme_end + 3;
        from = begin;
        let Some(length) = user_information(&bytes[begin..]) else { continue };
        let user = &bytes[begin..begin + length];
        let is_http =
            bytes[..scheme_end].ends_with(b"http") || bytes[..scheme_end].ends_with(b"https");
        if is_http || user.contains(&b':') {
            bytes[begin..begin + length].fill(b'*');
        }
        from = begin + length;
    }
}

/// `text` without the credentials of addresses.
pub fn hidden(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    hide(&mut bytes);
    // Whole characters were overwritten, because the byte that ends the user information is ASCII.
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The length of the part before the last `@` of the authority at the beginning of `bytes`.
fn user_information(bytes: &[u8]) -> Option<usize> {
    let bytes = &bytes[..bytes.len().min(LONGEST)];
    let ends = |at: usize| match bytes[at] {
        // `\u0026` is how Go writes `&` in JSON.
        b'\\' => bytes.get(at + 1) != Some(&b'u'),
        byte => {
            byte.is_ascii_whitespace() || byte.is_ascii_control() || b"/?#\"'`<>".contains(&byte)
        }
    };
    let end = (0..bytes.len()).find(|at| ends(*at)).unwrap_or(bytes.len());
    bytes[..end].iter().rposition(|byte| *byte == b'@').filter(|length| *length > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_in_addresses_are_hidden_and_the_length_stays() {
        for (given, expected) in [
            ("https://user:hunter2@host/x", "https://************@host/x"),
            ("git::https://ghp_1234@host/x", "git::https://********@host/x"),
            ("http://u:p@a@host and https://v:q@b", "http://*****@host and https://***@b"),
            (r#""https://u:p\u0026q@host""#, r#""https://**********@host""#),
            ("postgres://u:p@db/x", "postgres://***@db/x"),
            ("ssh://git@host/x", "ssh://git@host/x"),
            ("https://host/@scope/x", "https://host/@scope/x"),
            ("https://host a@b", "https://host a@b"),
            ("see http://", "see http://"),
            ("https://ü:p@host", "https://****@host"),
        ] {
            assert_eq!(hidden(given), expected);
            assert_eq!(hidden(given).len(), given.len());
        }
    }
}
