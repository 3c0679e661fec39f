//! Signs addresses in S3 that others use, with AWS Signature Version 4 in the query of the address:
//! <https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html>
//!
//! `object_store` signs addresses as well, but it leaves the header `content-length` out of what it signs. An address for
//! uploads would then take up to S3's limit of 5 GiB, whatever size the caller has announced.

use crate::error::BoxError;
use crate::url_signer::UrlSigner;
use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PercentEncodingMode, SignableBody, SignableRequest, SignatureLocation, SigningSettings,
    UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4::SigningParams;
use futures::future::{BoxFuture, ready};
use http::{HeaderMap, Method, Request};
use object_store::path::Path;
use std::time::{Duration, SystemTime};

/// Signs addresses in one bucket, by the rights of one identity.
#[derive(Debug)]
pub struct S3Signer {
    bucket_url: String,
    region: String,
    credentials: Credentials,
}

impl S3Signer {
    /// A signer for the bucket at `bucket_url`, such as `https://s3.eu-west-1.amazonaws.com/canyon`, without a slash at
    /// its end.
    pub fn new(bucket_url: String, region: String, credentials: Credentials) -> Self {
        Self { bucket_url, region, credentials }
    }

    fn signed(
        &self,
        method: &Method,
        path: &Path,
        headers: &HeaderMap,
        lifetime: Duration,
    ) -> Result<String, BoxError> {
        let url = format!("{}/{path}", self.bucket_url);
        let mut settings = SigningSettings::default();
        settings.signature_location = SignatureLocation::QueryParams;
        settings.expires_in = Some(lifetime);
        // S3 takes the path as it is sent, unlike the other services.
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
        let identity = self.credentials.clone().into();
        let parameters = SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name("s3")
            .time(SystemTime::now())
            .settings(settings)
            .build()?;
        let texts: Result<Vec<_>, BoxError> =
            headers.iter().map(|(name, value)| Ok((name.as_str(), value.to_str()?))).collect();
        let body = SignableBody::UnsignedPayload;
        let signable = SignableRequest::new(method.as_str(), &url, texts?.into_iter(), body)?;
        let (instructions, _) = sign(signable, &parameters.into())?.into_parts();
        let mut request = Request::builder().uri(url).body(())?;
        instructions.apply_to_request_http1x(&mut request);
        Ok(request.uri().to_string())
    }
}

impl UrlSigner for S3Signer {
    fn sign<'a>(
        &'a self,
        method: Method,
        path: &'a Path,
        headers: HeaderMap,
        lifetime: Duration,
    ) -> BoxFuture<'a, Result<String, BoxError>> {
        Box::pin(ready(self.signed(&method, path, &headers, lifetime)))
    }
}
