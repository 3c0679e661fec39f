//! The module that a runner fetches, and the whole log for users.

use super::App;
use super::run_token::{Proved, RunToken};
use crate::app::error::AppError;
use bytes::Bytes;
use canyon_api::archive::MAX_DIRECT_BYTES;
use canyon_api::attempt::Stream;
use canyon_api::sealed_log::decode_frames;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use canyon_domain::lifecycle::Refused;
use canyon_domain::module_source::ModuleSource;
use canyon_store::blob_keys::BlobKey;
use flate2::Compression;
use flate2::write::GzEncoder;
use secrecy::{ExposeSecret, SecretString};

/// The most parts of a log in one answer: together about 8,000 pieces, each a request to the object store.
const MAX_PARTS: usize = 32;

/// The module for a runner.
pub(crate) enum Source {
    /// A gzipped tar.
    Bytes(Bytes),
    /// A signed URL, because the archive is too large for an answer of Lambda.
    At(String),
}

impl App {
    /// The module of an attempt as a gzipped tar.
    ///
    /// # Errors
    ///
    /// 401 when the token is not the attempt's; 409 when the attempt is over.
    pub(crate) async fn source_archive(&self, mut token: RunToken) -> Result<Source, AppError> {
        let of = token.of;
        let Proved { over, .. } = self.prove(&mut token).await?;
        if over {
            return Err(Refused::Superseded.into());
        }
        let bundle = self.table.bundle(of.org, of.deployment).await?;
        let bundle =
            bundle.ok_or_else(|| AppError::conflict("the module of the deployment is gone"))?;
        match &bundle.module.source {
            ModuleSource::Archive { digest, .. } => {
                let key = BlobKey::archive(of.org, digest);
                let gone = || AppError::conflict(format!("archive sha256:{digest} is gone"));
                if self.blobs.signs() {
                    let size = self.blobs.size(&key).await?.ok_or_else(gone)?;
                    if size > MAX_DIRECT_BYTES as u64
                        && let Some(address) = self.blobs.sign_download(&key).await?
                    {
                        return Ok(Source::At(address));
                    }
                }
                self.blobs.get(&key).await?.map(Source::Bytes).ok_or_else(gone)
            }
            ModuleSource::Inline => {
                let code = bundle.module.source_code.unwrap_or_default();
                tar(&[("main.tf", code.as_bytes())]).map(Source::Bytes)
            }
            ModuleSource::Git(_) | ModuleSource::Oci(_) => tar(&[]).map(Source::Bytes),
        }
    }

    /// The first `most` bytes of the log of a deployment, or fewer if its first [`MAX_PARTS`] parts have fewer; decrypted
    /// if a key is given.
    ///
    /// # Errors
    ///
    /// 400 when the key is wrong, or the log is not encrypted.
    pub(crate) async fn whole_log(
        &self,
        org: OrgUuid,
        id: DeploymentId,
        key: Option<&SecretString>,
        most: usize,
    ) -> Result<Vec<u8>, AppError> {
        let mut log = Vec::new();
        for _ in 0..MAX_PARTS {
            let part = self.stream_part(org, id, Stream::Log, log.len() as u64).await?;
            log.extend_from_slice(&part);
            if part.is_empty() || log.len() >= most {
                break;
            }
        }
        log.truncate(most);
        match key {
            Some(key) => decrypt(&log, key),
            None => Ok(log),
        }
    }
}

fn decrypt(log: &[u8], key: &SecretString) -> Result<Vec<u8>, AppError> {
    let identity: age::x25519::Identity = key
        .expose_secret()
        .parse()
        .map_err(|_| AppError::invalid("DecryptKey", "it is not an `age` secret key"))?;
    let (frames, _) = decode_frames(log)
        .map_err(|_| AppError::invalid("DecryptKey", "this log is not encrypted"))?;
    let mut plain = Vec::new();
    for frame in frames {
        let piece = age::decrypt(&identity, frame)
            .map_err(|_| AppError::invalid("DecryptKey", "the log was encrypted to another key"))?;
        plain.extend(piece);
    }
    Ok(plain)
}

fn tar(files: &[(&str, &[u8])]) -> Result<Bytes, AppError> {
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
        AppError::internal()
    })
}
