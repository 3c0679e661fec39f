//! What a runner fetches, and the whole log that people read.

use super::App;
use super::runs::Proved;
use crate::http::error::ApiError;
use bytes::Bytes;
use canyon_api::attempt::Stream;
use canyon_api::sealed_log::decode_frames;
use canyon_domain::attempt::SecretHash;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use canyon_domain::lifecycle::Refused;
use canyon_domain::module_source::ModuleSource;
use canyon_identity::bearer::AttemptRef;
use canyon_store::blob_keys::BlobKey;
use flate2::Compression;
use flate2::write::GzEncoder;
use secrecy::{ExposeSecret, SecretString};

/// The longest log that is answered in one piece; a longer one is read part by part.
const MAX_LOG: usize = 5 * 1024 * 1024;

impl App {
    /// The module of an attempt as a gzipped tar.
    ///
    /// # Errors
    ///
    /// 401 when the token is not the attempt's; 409 when the attempt is over.
    pub(crate) async fn source_archive(
        &self,
        of: AttemptRef,
        token: &SecretHash,
    ) -> Result<Bytes, ApiError> {
        let Proved { over, .. } = self.prove(of, token).await?;
        if over {
            return Err(Refused::Superseded.into());
        }
        let bundle = self.table.bundle(of.org, of.deployment).await?;
        let bundle = bundle.ok_or_else(|| ApiError::conflict("what was to be deployed is gone"))?;
        match &bundle.module.source {
            ModuleSource::Archive { digest, .. } => {
                let archive = self.blobs.get(&BlobKey::archive(of.org, digest)).await?;
                archive
                    .ok_or_else(|| ApiError::conflict(format!("archive sha256:{digest} is gone")))
            }
            ModuleSource::Inline => {
                let code = bundle.module.source_code.unwrap_or_default();
                tar(&[("main.tf", code.as_bytes())])
            }
            ModuleSource::Git(_) => tar(&[]),
        }
    }

    /// The whole log of a deployment, decrypted if a key is given.
    ///
    /// # Errors
    ///
    /// 400 when the key does not fit, or the log is not encrypted.
    pub(crate) async fn whole_log(
        &self,
        org: OrgUuid,
        id: DeploymentId,
        key: Option<&SecretString>,
    ) -> Result<Bytes, ApiError> {
        let mut log = Vec::new();
        while log.len() < MAX_LOG {
            let part = self.stream_part(org, id, Stream::Log, log.len() as u64).await?;
            if part.is_empty() {
                break;
            }
            log.extend_from_slice(&part);
        }
        match key {
            Some(key) => decrypt(&log, key).map(Bytes::from),
            None => Ok(log.into()),
        }
    }
}

fn decrypt(log: &[u8], key: &SecretString) -> Result<Vec<u8>, ApiError> {
    let identity: age::x25519::Identity = key
        .expose_secret()
        .parse()
        .map_err(|_| ApiError::field("DecryptKey", "it is not an `age` secret key"))?;
    let (frames, _) = decode_frames(log)
        .map_err(|_| ApiError::field("DecryptKey", "this log is not encrypted"))?;
    let mut plain = Vec::new();
    for frame in frames {
        let piece = age::decrypt(&identity, frame)
            .map_err(|_| ApiError::field("DecryptKey", "the log was encrypted to another key"))?;
        plain.extend(piece);
    }
    Ok(plain)
}

fn tar(files: &[(&str, &[u8])]) -> Result<Bytes, ApiError> {
    let pack = || -> std::io::Result<Vec<u8>> {
        let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (name, bytes) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o600);
            tar.append_data(&mut header, name, *bytes)?;
        }
        tar.into_inner()?.finish()
    };
    pack().map(Bytes::from).map_err(|error| {
        tracing::error!(%error, "cannot pack an inline module");
        ApiError::internal()
    })
}
