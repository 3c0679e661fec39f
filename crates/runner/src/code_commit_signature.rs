//! Hides the passwords that the runner makes for AWS `CodeCommit`, which a host may repeat: the time and the signature of the
//! request. Each is made by a process of its own, when git asks for it, so that no mask knows it.

/// The length of a time such as `20260131T120000Z`.
const TIME: usize = 16;
/// The digits of a signature (HMAC-SHA256).
const SIGNATURE: usize = 64;
/// The length of a password.
pub const REACH: usize = TIME + SIGNATURE;

/// Replaces the signature of each password in `bytes` by `*`.
pub fn hide(bytes: &mut [u8]) {
    let mut at = TIME - 1;
    while let Some(next) = bytes.get(at..).and_then(|rest| rest.iter().position(|b| *b == b'Z')) {
        let begin = at + next + 1;
        let is_time = bytes.get(begin - TIME..begin).is_some_and(is_time);
        let digits = bytes.get_mut(begin..begin + SIGNATURE);
        match digits.filter(|digits| is_time && digits.iter().all(u8::is_ascii_hexdigit)) {
            Some(digits) => {
                digits.fill(b'*');
                at = begin + SIGNATURE;
            }
            None => at = begin,
        }
    }
}

fn is_time(text: &[u8]) -> bool {
    let is_at = |(at, byte): (usize, &u8)| match at {
        8 => *byte == b'T',
        15 => *byte == b'Z',
        _ => byte.is_ascii_digit(),
    };
    text.iter().enumerate().all(is_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_hidden_wherever_it_is_and_nothing_else() {
        let hidden = |text: &str| {
            let mut bytes = text.as_bytes().to_vec();
            hide(&mut bytes);
            String::from_utf8(bytes).unwrap()
        };
        let (signature, stars) = ("0a".repeat(32), "*".repeat(64));
        let password = format!("20260131T120000Z{signature}");
        assert_eq!(hidden(&password), format!("20260131T120000Z{stars}"));
        let twice = format!("P={password} and {password}Z");
        assert_eq!(
            hidden(&twice),
            format!("P=20260131T120000Z{stars} and 20260131T120000Z{stars}Z")
        );
        for other in
            [&signature[..], "Z", "20260131T120000Z0a0a", &format!("x0260131T120000Z{signature}")]
        {
            assert_eq!(hidden(other), other);
        }
    }
}
