//! Names of variables that hold secrets.

/// A variable whose name contains one of these words holds a secret.
const SECRET_WORDS: [&str; 8] =
    ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PRIVATE", "CREDENTIAL", "KEY"];

/// Whether a variable of this name holds a secret. A name for the path of a file with a secret does not count.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let is_path = name.ends_with("_FILE") || name.ends_with("_PATH");
    !is_path && SECRET_WORDS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_variable_tells_whether_it_holds_a_secret() {
        for name in ["API_TOKEN", "db_password", "AWS_SECRET_ACCESS_KEY", "TF_TOKEN_example_com"] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["AWS_REGION", "TF_LOG", "AWS_WEB_IDENTITY_TOKEN_FILE", "SSH_KEY_PATH", ""] {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
