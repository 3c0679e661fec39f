//! The actions that calls to S3 need. Buckets are in the path: the functions' endpoint is an address, not a name.
//! (Amazon S3 user guide, "Required permissions for Amazon S3 API operations".)

use super::call::Call;
use super::needs::Need;
use hyper::Method;
use percent_encoding::percent_decode_str;

/// Bucket settings, by the query parameter that names them.
const OF_BUCKET: [(&str, &str, &str); 7] = [
    ("location", "GetBucketLocation", "GetBucketLocation"),
    ("versioning", "GetBucketVersioning", "PutBucketVersioning"),
    ("encryption", "GetEncryptionConfiguration", "PutEncryptionConfiguration"),
    ("lifecycle", "GetLifecycleConfiguration", "PutLifecycleConfiguration"),
    ("policy", "GetBucketPolicy", "PutBucketPolicy"),
    ("tagging", "GetBucketTagging", "PutBucketTagging"),
    ("uploads", "ListBucketMultipartUploads", "ListBucketMultipartUploads"),
];

/// The name of the operation, as far as fault rules and permissions distinguish them.
pub(super) fn operation(call: &Call) -> &'static str {
    let (bucket, key) = call.bucket_and_key();
    let has = |name: &str| call.asked(name).is_some();
    if bucket.is_empty() {
        return "ListAllMyBuckets";
    }
    if key.is_empty() {
        let setting = OF_BUCKET.iter().find(|(word, ..)| has(word));
        return match (&call.method, setting) {
            (&Method::GET, Some((_, read, _))) => read,
            (&Method::PUT, Some((_, _, write))) => write,
            (&Method::GET | &Method::HEAD, None) => "ListBucket",
            (&Method::PUT, None) => "CreateBucket",
            (&Method::POST, _) if has("delete") => "DeleteObjects",
            (&Method::DELETE, None) => "DeleteBucket",
            _ => "UnknownBucketOperation",
        };
    }
    match call.method {
        Method::GET if has("uploadId") => "ListMultipartUploadParts",
        Method::GET if has("tagging") => "GetObjectTagging",
        Method::GET if has("acl") => "GetObjectAcl",
        Method::GET => "GetObject",
        Method::HEAD => "HeadObject",
        Method::PUT if has("tagging") => "PutObjectTagging",
        Method::PUT if call.header("x-amz-copy-source").is_some() => "CopyObject",
        // Parts and completion of an upload need the same action as the object.
        Method::PUT | Method::POST => "PutObject",
        Method::DELETE if has("uploadId") => "AbortMultipartUpload",
        Method::DELETE => "DeleteObject",
        _ => "UnknownObjectOperation",
    }
}

pub(super) fn needs(call: &Call) -> Vec<Need> {
    let (bucket, key) = call.bucket_and_key();
    let arn = |path: &str| format!("arn:aws:s3:::{path}");
    let object = arn(&format!("{bucket}/{key}"));
    match call.operation.as_str() {
        "ListAllMyBuckets" => vec![Need::new("s3:ListAllMyBuckets", "*")],
        "HeadObject" => vec![Need::new(versioned(call, "s3:GetObject"), object)],
        "GetObject" | "DeleteObject" => {
            vec![Need::new(versioned(call, &format!("s3:{}", call.operation)), object)]
        }
        "PutObject" if call.header("x-amz-tagging").is_some() => {
            vec![written(call, &object), Need::new("s3:PutObjectTagging", &object)]
        }
        "PutObject" => vec![written(call, &object)],
        "CopyObject" => {
            let from = call.header("x-amz-copy-source").unwrap_or_default();
            let from = percent_decode_str(from.trim_start_matches('/')).decode_utf8_lossy();
            let from = from.split('?').next().unwrap_or_default();
            vec![Need::new("s3:PutObject", object), Need::new("s3:GetObject", arn(from))]
        }
        "DeleteObjects" => {
            let body = String::from_utf8_lossy(&call.body).into_owned();
            let keys = body.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next());
            keys.map(|key| Need::new("s3:DeleteObject", arn(&format!("{bucket}/{key}")))).collect()
        }
        "ListBucket" => vec![list_bucket(call)],
        _ if key.is_empty() => vec![Need::new(format!("s3:{}", call.operation), arn(&bucket))],
        _ => vec![Need::new(format!("s3:{}", call.operation), object)],
    }
}

/// `s3:ObjectCreationOperation`: an object is created by a `PUT` without parts, or by the completion of a multipart
/// upload. (Amazon S3 user guide, "Enforce conditional writes on Amazon S3 buckets".)
fn written(call: &Call, object: &str) -> Need {
    let parts = call.asked("uploads").is_some()
        || (call.asked("uploadId").is_some() && call.method == Method::PUT);
    let need = Need::new("s3:PutObject", object)
        .with("s3:ObjectCreationOperation", vec![(!parts).to_string()]);
    match call.header("if-none-match") {
        Some(value) => need.with("s3:if-none-match", vec![value.to_owned()]),
        None => need,
    }
}

/// Only callers with `s3:ListBucket` get 404 for a missing object; others get 403.
pub(super) fn list_bucket(call: &Call) -> Need {
    let (bucket, _) = call.bucket_and_key();
    let need = Need::new("s3:ListBucket", format!("arn:aws:s3:::{bucket}"));
    match call.asked("prefix") {
        Some(prefix) => need.with("s3:prefix", vec![prefix.to_owned()]),
        None => need,
    }
}

fn versioned(call: &Call, action: &str) -> String {
    let version = if call.asked("versionId").is_some() { "Version" } else { "" };
    format!("{action}{version}")
}
