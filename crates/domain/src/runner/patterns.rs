//! The accepted forms of names in clouds and Kubernetes.
//!
//! Most follow the patterns of the published API. They are wider where those leave out what exists
//! (`GovCloud`, China, regions with two digits), and narrower where a value could not work or would lead
//! elsewhere (`..` in a path). What the published API accepts beyond them follows `or`: it is stored with a
//! warning, and no job starts with it.

use super::shape::Shape;
use super::{certificate, published};
use crate::dns_label::is_dns_label;
use crate::ids::AgentId;

macro_rules! shapes {
    ($($name:ident: $max:literal, $rule:literal, $fits:expr $(, or $published:path)? $(, format $format:literal)?;)+) => {
        $(pub(crate) const $name: Shape = Shape {
            rule: $rule,
            max: $max,
            fits: $fits,
            published: shapes!(@ $($published)?),
            format: shapes!(@ $($format)?),
        };)+
    };
    (@) => { None };
    (@ $given:expr) => { Some($given) };
}

shapes! {
    DESCRIPTION: 16_384, "text", |_| true;
    NAME: 255, "a name: not empty, without spaces around it or control characters", is_name;
    VALUE: 1024, "text without NUL", |text| !text.contains('\0'), or published::value;
    BASE64: 65_536, "base64, on one line", is_base64, or published::anything;
    CERTIFICATE: 65_536, "a PEM certificate in base64, on one line", certificate::fits, or published::certificate;
    TOKEN: 16_384, "a token: letters, digits and punctuation, without spaces", is_token, or published::anything;
    HTTPS_URL: 2048, "an https:// URL without user name, query or fragment", is_https_url, or published::server;
    STORE_URL: 2048, "an https:// URL without user name, query or fragment (http:// only for this machine: localhost, 127.0.0.1 or [::1])", is_store_url;
    STORE_AUDIENCE: 255, "an audience of the store's own, such as `vault` or its address: with a cloud's audience, the store could sign in to that cloud as the job", is_cluster_audience;
    VAULT_PATH: 512, "a path: letters, digits and ._- between slashes, without `.` or `..`", is_path_prefix;
    VAULT_NAMESPACE: 512, "a namespace: letters, digits and ._- between slashes, without `.` or `..`", is_path_prefix;
    PROXY_URL: 2048, "an http://, https:// or socks5:// URL without user name or password", is_proxy_url, or published::proxy;
    UUID: 36, "a UUID", is_uuid, format "uuid";
    IMAGE: 255, "a container image, such as registry.example.com/team/image:tag", is_image, or published::image;
    ALLOWED_IMAGE: 512, "a container image with `*` for any text without `/`, or `**` for any text: at most four of them, such as `ghcr.io/acme/*`", is_image_pattern;
    VARIABLE: 255, "the name of a variable: letters, digits and `_`, not starting with a digit or with `CANYON_`", is_variable, or published::variable;
    PUBLIC_KEY: 200, "an ed25519 public key in PEM form (`openssl pkey -pubout`)", is_ed25519_key, or published::public_key;
    DNS_LABEL: 63, "at most 63 lower case letters, digits and hyphens, with neither end a hyphen", is_dns_label, or published::anything;
    DNS_NAME: 253, "at most 253 lower case letters, digits, hyphens and dots", is_dns_name, or published::anything;
    REGION: 24, "an AWS region, such as eu-central-1", is_region;
    // The published API does not limit the region of a cluster further.
    EKS_REGION: 24, "an AWS region, such as eu-central-1", is_region, or published::anything;
    ROLE_ARN: 2048, "the ARN of an IAM role: arn:aws:iam::123456789012:role/NAME (also aws-us-gov, aws-cn, aws-eusc)", is_role_arn;
    // STS refuses `/`, which the published pattern allows.
    SESSION_NAME: 64, "3 to 64 letters, digits and +=,.@-_", |text| text.len() >= 3 && text.chars().all(is_session_char), or published::session_name;
    EKS_CLUSTER: 100, "letters, digits, `-` and `_`, starting with a letter or digit", |text| starts_alphanumeric(text) && only(text, "-_"), or published::anything;
    ECS_CLUSTER: 255, "the name or ARN of an ECS cluster", |text| !text.is_empty() && only(text, "-_:/"), or published::up_to_255;
    SUBNET: 24, "the id of a subnet, such as subnet-12345", |text| text.starts_with("subnet-") && text.len() > 7 && only(text, "-"), or published::up_to_24;
    SECURITY_GROUP: 255, "the id of a security group", |text| !text.is_empty() && only(text, "-_"), or published::up_to_255;
    SECRET_ARN: 2048, "the ARN of a Secrets Manager secret (with its six last characters) or of an SSM parameter", is_secret_arn, or published::secret_arn;
    LOG_GROUP: 512, "a CloudWatch log group: letters, digits and _-/.#", |text| !text.is_empty() && only(text, "_-/.#");
    PLATFORM_VERSION: 16, "LATEST or a version such as 1.4.0", is_platform_version;
    TAG_KEY: 128, "a tag: letters, digits, spaces and _.:/=+-@, not starting with `aws:` or `canyon:`", is_tag_key;
    TAG_VALUE: 256, "letters, digits, spaces and _.:/=+-@", is_tag_text;
    GKE_NAME: 63, "lower case letters, digits and hyphens, starting with a letter", |text| starts_lower(text) && is_dns_label(text), or published::anything;
    GCP_PROJECT: 100, "the id of a Google Cloud project", |text| starts_lower(text) && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.:".contains(c)), or published::anything;
    GCP_AUDIENCE: 1024, "a workload identity provider: //iam.googleapis.com/projects/NUMBER/locations/global/workloadIdentityPools/POOL/providers/PROVIDER", is_gcp_audience, or published::anything;
    GCP_SERVICE_ACCOUNT: 255, "the address of a Google service account, ending in .gserviceaccount.com", is_gcp_service_account, or published::anything;
    CLUSTER_AUDIENCE: 255, "an audience of the cluster's own, such as `canyon` or its address: with a cloud's audience, the server could sign in to that cloud as the runner", is_cluster_audience;
    RESOURCE_GROUP: 90, "an Azure resource group: letters, digits and ._-(), not ending with a dot", |text| !text.is_empty() && !text.ends_with('.') && only(text, "._-()"), or published::anything;
    AKS_CLUSTER: 63, "letters, digits, `-` and `_`, starting with a letter or digit", |text| starts_alphanumeric(text) && only(text, "-_");
    STORAGE_ACCOUNT: 24, "an Azure storage account: 3 to 24 lower case letters and digits", |text| text.len() >= 3 && is_dns_label(text) && !text.contains('-'), or published::anything;
    STORAGE_CONTAINER: 63, "an Azure storage container: 3 to 63 lower case letters, digits and single hyphens", |text| text.len() >= 3 && is_dns_label(text) && !text.contains("--"), or published::anything;
    BUCKET: 63, "a bucket: 3 to 63 lower case letters, digits and hyphens", |text| text.len() >= 3 && is_dns_label(text), or published::bucket;
    PATH_PREFIX: 512, "a path such as path/to/states: letters, digits and ._- between slashes, without `.` or `..`", is_path_prefix, or published::path_prefix;
    DIRECTORY: 1024, "an absolute path without `.`, `..` or empty parts, and without `${` and `%{`: OpenTofu would evaluate them with variables of the deployment", is_directory;
    EXTRA_HOST: 300, "NAME:ADDRESS, the address an IP or `host-gateway`", is_extra_host;
    AGENT_ID: 100, "the id of an agent: 1 to 100 lower case letters, digits, hyphens, underscores and single dots, starting with a letter or digit", |text| text.parse::<AgentId>().is_ok();
    LABEL: 63, "a label: letters, digits and `._-/`, starting with a letter or digit", |text| starts_alphanumeric(text) && only(text, "._-/");
    LABEL_VALUE: 63, "letters, digits and `._-`", |text| only(text, "._-");
    PROFILE: 255, "the name of a profile", |_| true;
}

/// Parts of audiences that a cloud accepts as its own: AWS's STS in every partition and region, Google's STS,
/// Microsoft Entra in its clouds, and Alibaba's STS.
const CLOUD_AUDIENCES: [&str; 6] = [
    "amazonaws.",
    "googleapis.",
    "azureadtokenexchange",
    "microsoftonline.",
    "windows.net",
    "aliyuncs.",
];

/// The launcher sends the assertion, with the runner's own subject, to a server that the runner's
/// administrator names.
fn is_cluster_audience(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    is_name(text) && !CLOUD_AUDIENCES.iter().any(|part| lower.contains(part))
}

const PARTITIONS: [&str; 4] = ["aws", "aws-us-gov", "aws-cn", "aws-eusc"];

/// The partition of `region`, as in every ARN there.
pub(crate) fn partition_of(region: &str) -> &'static str {
    match region.split('-').next() {
        Some("cn") => "aws-cn",
        Some("eusc") => "aws-eusc",
        _ if region.starts_with("us-gov-") => "aws-us-gov",
        _ => "aws",
    }
}

/// Whether `text` consists of ASCII letters, digits and the characters of `more`.
pub(super) fn only(text: &str, more: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
}

fn starts_alphanumeric(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
}

fn starts_lower(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
}

fn digits(text: &str, count: usize) -> bool {
    text.len() == count && text.bytes().all(|b| b.is_ascii_digit())
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.trim() == text && !text.contains(char::is_control)
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    !body.is_empty()
        && text.len() - body.len() <= 2
        && text.len().is_multiple_of(4)
        && only(body, "+/")
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic())
}

/// Whether `text` is `host` and what follows, without parts that hide another host or a password.
fn is_plain_location(text: &str) -> bool {
    (starts_alphanumeric(text) || text.starts_with('[')) && only(text, "-._~:/[]%")
}

fn is_https_url(text: &str) -> bool {
    text.strip_prefix("https://").is_some_and(is_plain_location)
}

/// Without TLS only a server on the same machine, which no network carries the token and the secret to.
fn is_store_url(text: &str) -> bool {
    let rest = text.strip_prefix("http://").unwrap_or_default();
    let authority = rest.split('/').next().unwrap_or_default();
    let is_here = ["localhost", "127.0.0.1", "[::1]"].iter().any(|host| {
        authority.strip_prefix(host).is_some_and(|port| port.is_empty() || port.starts_with(':'))
    });
    is_https_url(text) || is_here && is_plain_location(rest)
}

fn is_proxy_url(text: &str) -> bool {
    let location = ["http://", "https://", "socks5://"].iter().find_map(|s| text.strip_prefix(s));
    location.is_some_and(is_plain_location)
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36 && uuid::Uuid::try_parse(text).is_ok()
}

pub(crate) fn is_image(text: &str) -> bool {
    let (name, digest) = text.split_once('@').map_or((text, None), |(n, d)| (n, Some(d)));
    let digest_fits = digest.is_none_or(|digest| {
        digest.split_once(':').is_some_and(|(algorithm, hash)| {
            !algorithm.is_empty()
                && !hash.is_empty()
                && algorithm.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
                && hash.chars().all(|c| c.is_ascii_hexdigit())
        })
    });
    starts_alphanumeric(name) && only(name, "._:/-") && digest_fits
}

/// Maximum number of patterns of images.
pub(crate) const MAX_ALLOWED_IMAGES: usize = 64;

fn is_image_pattern(text: &str) -> bool {
    let stars = text.replace("**", "*").matches('*').count();
    stars <= 4 && !text.contains("***") && is_image(&text.replace('*', "x"))
}

pub(crate) fn is_variable(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && only(text, "_")
        && !text.starts_with("CANYON_")
}

/// A PEM block of the 12 bytes that mean "ed25519" (RFC 8410, 4) and 32 bytes of key.
fn is_ed25519_key(text: &str) -> bool {
    let body = text.strip_prefix("-----BEGIN PUBLIC KEY-----\n").and_then(|rest| {
        rest.strip_suffix('\n').unwrap_or(rest).strip_suffix("\n-----END PUBLIC KEY-----")
    });
    body.is_some_and(|body| {
        body.len() == 60 && body.starts_with("MCowBQYDK2VwAyEA") && is_base64(body)
    })
}

fn is_dns_name(text: &str) -> bool {
    text.split('.').all(is_dns_label)
}

fn is_region(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [area, names @ .., number] = parts.as_slice() else { return false };
    let is_word = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase());
    (2..=4).contains(&area.len())
        && is_word(area)
        && !names.is_empty()
        && names.iter().all(|name| is_word(name))
        && (digits(number, 1) || digits(number, 2))
}

fn is_role_arn(text: &str) -> bool {
    let parts: Vec<&str> = text.splitn(6, ':').collect();
    let ["arn", partition, "iam", "", account, role] = parts.as_slice() else { return false };
    PARTITIONS.contains(partition)
        && digits(account, 12)
        && role.strip_prefix("role/").is_some_and(|name| !name.is_empty() && only(name, "_+=,.@-/"))
}

pub(super) fn is_session_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "+=,.@-_".contains(c)
}

/// A secret may be followed by `:json-key:version-stage:version-id`, as ECS accepts it.
fn is_secret_arn(text: &str) -> bool {
    let parts: Vec<&str> = text.split(':').collect();
    let ["arn", partition, service, region, account, rest @ ..] = parts.as_slice() else {
        return false;
    };
    let named = match (*service, rest) {
        ("secretsmanager", ["secret", name, more @ ..]) => {
            more.len() <= 3
                && more.iter().all(|part| only(part, "_-.+/=@ "))
                && only(name, "_-.+/=@")
                && name
                    .rsplit_once('-')
                    .is_some_and(|(stem, end)| !stem.is_empty() && end.len() == 6 && only(end, ""))
        }
        ("ssm", [parameter]) => parameter
            .strip_prefix("parameter/")
            .is_some_and(|name| !name.is_empty() && only(name, "_-./")),
        _ => false,
    };
    PARTITIONS.contains(partition) && is_region(region) && digits(account, 12) && named
}

fn is_platform_version(text: &str) -> bool {
    text == "LATEST"
        || (text.split('.').count() == 3
            && text.split('.').all(|part| digits(part, 1) || digits(part, 2)))
}

fn is_tag_text(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || " _.:/=+-@".contains(c))
}

fn is_tag_key(text: &str) -> bool {
    let lower = text.to_lowercase();
    !text.is_empty()
        && is_tag_text(text)
        && !lower.starts_with("aws:")
        && !lower.starts_with("canyon:")
}

fn is_gcp_audience(text: &str) -> bool {
    let path = text.strip_prefix("https:").unwrap_or(text).strip_prefix("//iam.googleapis.com/");
    let parts: Vec<&str> = path.unwrap_or_default().split('/').collect();
    matches!(
        parts.as_slice(),
        ["projects", project, "locations", place, "workloadIdentityPools", pool, "providers", provider]
            if [project, place, pool, provider].iter().all(|part| !part.is_empty() && only(part, "-"))
    )
}

fn is_gcp_service_account(text: &str) -> bool {
    text.split_once('@').is_some_and(|(name, domain)| {
        !name.is_empty()
            && only(name, "-._")
            && domain.ends_with(".gserviceaccount.com")
            && is_dns_name(domain)
    })
}

fn is_path_prefix(text: &str) -> bool {
    let path = text.strip_suffix('/').unwrap_or(text);
    path.split('/').all(|part| !part.is_empty() && !is_dots(part) && only(part, "._-"))
}

fn is_directory(text: &str) -> bool {
    let path = text.strip_suffix('/').unwrap_or(text);
    path.strip_prefix('/').is_some_and(|rest| {
        rest.split('/')
            .all(|part| !part.is_empty() && !is_dots(part) && !part.contains(char::is_control))
    }) && !["${", "%{"].iter().any(|template| text.contains(template))
}

fn is_dots(part: &str) -> bool {
    part == "." || part == ".."
}

/// Whether a text is `NAME:ADDRESS`, an entry of a container's `/etc/hosts`.
pub fn is_extra_host(text: &str) -> bool {
    text.split_once(':').is_some_and(|(name, address)| {
        is_dns_name(name)
            && (address == "host-gateway" || address.parse::<std::net::IpAddr>().is_ok())
    })
}

#[cfg(test)]
mod tests;
