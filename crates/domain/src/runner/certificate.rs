//! The fields that hold certificates, PEM in base64: trusted authorities, and the launcher's own identity.
//!
//! Readers of a runner see certificates. A field may hold a token or a key by mistake, and the published API accepts any text
//! there. A private key is refused; other text is stored with a warning, and only administrators see it.

use super::published;
use serde_json::{Map, Value};

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";
/// Where the fields are in `runner_configuration`.
const FIELDS: [&str; 2] =
    ["/cluster/cluster_data/certificate_authority_data", "/cluster/auth/client_certificate_data"];
/// What readers see in the place of text that is not a certificate.
const WITHHELD: &str = "not shown: this is not a certificate";

/// Whether `text` holds certificates and no block of another kind. Words between them are usual in bundles.
pub(super) fn fits(text: &str) -> bool {
    let pem = published::pem(text);
    let blocks = pem.matches("-----BEGIN ").count();
    published::certificate(text) && blocks > 0 && blocks == pem.matches(BEGIN).count()
}

/// Whether `text` holds certificates alone, without a word before, between or after them.
fn is_public(text: &str) -> bool {
    let base64 =
        |line: &str| line.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b));
    let mut is_inside = false;
    fits(text)
        && published::pem(text).lines().map(str::trim).all(|line| match line {
            "" => true,
            BEGIN => !std::mem::replace(&mut is_inside, true),
            END => std::mem::replace(&mut is_inside, false),
            line => is_inside && base64(line),
        })
}

/// Replaces in a `runner_configuration` what stands in the field of a certificate and may be a secret: readers who are not
/// administrators see the rest.
pub fn withhold(configuration: &mut Map<String, Value>) {
    let mut whole = Value::Object(std::mem::take(configuration));
    for field in FIELDS {
        if let Some(value) = whole.pointer_mut(field)
            && !value.as_str().is_some_and(is_public)
        {
            *value = WITHHELD.into();
        }
    }
    if let Value::Object(members) = whole {
        *configuration = members;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use serde_json::json;

    #[test]
    fn a_reader_sees_certificates_and_nothing_else_that_stands_in_their_fields() {
        let one = format!("{BEGIN}\nMIIBszCCAVmgAwIBAgIUQ\r\nabc=\n{END}\n");
        let encoded = |text: &str| STANDARD.encode(text);
        let shown = [one.clone(), format!("{one}\n{one}"), format!("{BEGIN}\n")];
        let withheld = [
            String::new(),
            "hunter2".to_owned(),
            format!("{one}hunter2\n"),
            format!("hunter2\n{one}"),
            format!("{BEGIN}\nhunter 2\n{END}\n"),
            format!("{one}-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n"),
            one.replace("CERTIFICATE", "SSH KEY"),
        ];
        for (pem, is_shown) in
            shown.iter().map(|pem| (pem, true)).chain(withheld.iter().map(|pem| (pem, false)))
        {
            let text = encoded(pem);
            let whole = json!({
                "type": "kubernetes",
                "cluster": {
                    "cluster_data": { "server": "https://a", "certificate_authority_data": text },
                    "auth": { "client_certificate_data": text },
                },
            });
            let Value::Object(mut seen) = whole.clone() else { unreachable!() };
            withhold(&mut seen);
            let seen = Value::Object(seen);
            assert_eq!(seen == whole, is_shown, "{pem}: {seen}");
            if !is_shown {
                assert_eq!(seen.to_string().matches(WITHHELD).count(), 2, "{seen}");
            }
        }
        // As they stand in the field, without base64.
        for raw in ["hunter2", &one] {
            assert!(!is_public(raw), "{raw}");
        }
        let mut other = Map::from_iter([("type".to_owned(), json!("local"))]);
        withhold(&mut other);
        assert_eq!(Value::Object(other), json!({ "type": "local" }));
    }

    #[test]
    fn a_block_that_is_not_a_certificate_does_not_fit_beside_one() {
        let one = format!("{BEGIN}\n{END}\n");
        let cases = [
            (one.clone(), true),
            (format!("Subject: CN=a\n{one}"), true),
            (format!("{one}-----BEGIN EC PARAMETERS-----\n"), false),
            (format!("{one}-----BEGIN EC PRIVATE KEY-----\n"), false),
            (String::new(), false),
        ];
        for (pem, expected) in cases {
            assert_eq!(fits(&STANDARD.encode(&pem)), expected, "{pem}");
        }
    }
}
