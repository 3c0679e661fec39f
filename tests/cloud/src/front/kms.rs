//! The actions that calls to KMS need.

use super::Account;
use super::call::Call;
use super::needs::Need;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// Operations that name no single key.
const WITHOUT_KEY: [&str; 5] =
    ["CreateKey", "ListKeys", "ListAliases", "GenerateRandom", "DescribeCustomKeyStores"];

pub(super) fn needs(call: &Call, account: &Account) -> Vec<Need> {
    let body = call.json();
    let action = format!("kms:{}", call.operation);
    if WITHOUT_KEY.contains(&call.operation.as_str()) {
        return vec![Need::new(action, "*")];
    }
    let mut need = Need::new(action, key(&body, account));
    if let Some(algorithm) = body["SigningAlgorithm"].as_str() {
        need = need.with("kms:SigningAlgorithm", vec![algorithm.to_owned()]);
    }
    if call.operation == "Sign" {
        // "The default value is RAW." (KMS API reference, `Sign`.)
        let kind = body["MessageType"].as_str().unwrap_or("RAW");
        need = need.with("kms:MessageType", vec![kind.to_owned()]);
    }
    if let Some(context) = body["EncryptionContext"].as_object() {
        let names = context.keys().cloned().collect();
        need = need.with("kms:EncryptionContextKeys", names);
        for (name, value) in context {
            let value = vec![value.as_str().unwrap_or_default().to_owned()];
            need = need.with(&format!("kms:EncryptionContext:{name}"), value);
        }
    }
    vec![need]
}

/// Policies name keys by ARN. Callers also use an id or alias, or a ciphertext that contains the key's
/// id.
fn key(body: &Value, account: &Account) -> String {
    let named = body["KeyId"].as_str().map(str::to_owned).or_else(|| key_within(body));
    let Some(named) = named else { return "*".to_owned() };
    let within = format!("arn:aws:kms:{}:{}:", account.region, account.id);
    let short = named.strip_prefix(&within).unwrap_or(&named);
    if short.starts_with("alias/") {
        // An alias is no resource of these actions: an unknown one stays unchanged, and matches no
        // key.
        return account
            .key_aliases
            .get(short)
            .cloned()
            .unwrap_or_else(|| format!("{within}{short}"));
    }
    if named.starts_with("arn:") { named } else { format!("{within}key/{short}") }
}

/// moto puts the key's id into the first 36 bytes of a ciphertext.
fn key_within(body: &Value) -> Option<String> {
    let ciphertext = STANDARD.decode(body["CiphertextBlob"].as_str()?).ok()?;
    String::from_utf8(ciphertext.get(..36)?.to_vec()).ok()
}
