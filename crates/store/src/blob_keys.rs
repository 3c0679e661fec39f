//! Every key of the object store. Each starts with the organization's uuid, so that no listing can
//! cross organizations, and a name that is used again never leads to its former owner's data.
//!
//! Keys consist of ids and numbers that were parsed before, so no key can hold
//! `..` or lead out of its prefix.

use canyon_domain::ids::{DeploymentId, OrgUuid};
use canyon_domain::module_source::Digest;
use canyon_domain::plan_task::PlanPiece;
use object_store::path::Path;
use std::fmt;

/// Key of one blob.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobKey(pub(crate) Path);

/// Prefix of a folder of blobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobPrefix(pub(crate) Path);

/// A stream of a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stream {
    /// Text for people.
    Log,
    /// The `-json` lines of OpenTofu, as it wrote them.
    Events,
}

impl Stream {
    /// Its name in keys.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Events => "events",
        }
    }
}

impl BlobKey {
    /// An uploaded module: `<org>/archives/<sha256>`. Equal bytes are stored once.
    pub fn archive(org: OrgUuid, digest: &Digest) -> Self {
        Self(format!("{org}/archives/{digest}").into())
    }

    /// Outputs of an attempt: `<org>/deployments/<deployment>/attempts/<n>/outputs.json`.
    pub fn outputs(org: OrgUuid, deployment: DeploymentId, attempt: u32) -> Self {
        Self(format!("{}/attempts/{attempt}/outputs.json", folder(org, deployment)).into())
    }

    /// Outputs of an attempt, encrypted to the caller's key: `.../attempts/<n>/outputs.age`.
    pub fn encrypted_outputs(org: OrgUuid, deployment: DeploymentId, attempt: u32) -> Self {
        Self(format!("{}/attempts/{attempt}/outputs.age", folder(org, deployment)).into())
    }

    /// The values of the sensitive outputs of an attempt, sealed: `.../attempts/<n>/outputs.sealed`.
    pub fn sealed_outputs(org: OrgUuid, deployment: DeploymentId, attempt: u32) -> Self {
        Self(format!("{}/attempts/{attempt}/outputs.sealed", folder(org, deployment)).into())
    }

    /// Orphans: resources that a lost attempt may have created: `.../attempts/<n>/orphans.json`.
    pub fn orphans(org: OrgUuid, deployment: DeploymentId, attempt: u32) -> Self {
        Self(format!("{}/attempts/{attempt}/orphans.json", folder(org, deployment)).into())
    }

    /// The same, read again after the attempt's end: an object is written once.
    pub fn late_orphans(org: OrgUuid, deployment: DeploymentId, attempt: u32) -> Self {
        Self(format!("{}/attempts/{attempt}/late-orphans.json", folder(org, deployment)).into())
    }

    /// The resources in the state after an attempt: `.../attempts/<n>/resources.json`.
    pub fn resources(org: OrgUuid, deployment: DeploymentId, attempt: u32) -> Self {
        Self(format!("{}/attempts/{attempt}/resources.json", folder(org, deployment)).into())
    }

    /// What a check for drift has found: `.../attempts/<n>/drift.json`.
    pub fn drift(org: OrgUuid, deployment: DeploymentId, attempt: u32) -> Self {
        Self(format!("{}/attempts/{attempt}/drift.json", folder(org, deployment)).into())
    }

    /// What a policy says of the plan of an attempt: `.../attempts/<n>/policy.json`.
    pub fn policy(org: OrgUuid, deployment: DeploymentId, attempt: u32) -> Self {
        Self(format!("{}/attempts/{attempt}/policy.json", folder(org, deployment)).into())
    }

    /// A piece of the plan of an attempt, encrypted: `.../attempts/<n>/plan/<piece>`.
    pub fn plan(org: OrgUuid, deployment: DeploymentId, attempt: u32, piece: PlanPiece) -> Self {
        Self(format!("{}/attempts/{attempt}/plan/{piece}", folder(org, deployment)).into())
    }

    /// The part of a stream that starts at byte `offset`:
    /// `<org>/deployments/<deployment>/<stream>/<offset, 16 digits>`. The offset is padded, so that
    /// the order of keys is the order of bytes. The attempts of a deployment continue one stream.
    pub fn chunk(org: OrgUuid, deployment: DeploymentId, stream: Stream, offset: u64) -> Self {
        let BlobPrefix(chunks) = BlobPrefix::chunks(org, deployment, stream);
        Self(format!("{chunks}/{offset:016}").into())
    }

    /// The deployment of a chunk; `None` for any other key.
    pub fn deployment_of_chunk(&self) -> Option<DeploymentId> {
        let mut parts = self.0.parts().skip(2);
        let deployment = parts.next()?.as_ref().parse().ok()?;
        let name = parts.next()?;
        let is_stream = [Stream::Log, Stream::Events].map(Stream::as_str).contains(&name.as_ref());
        is_stream.then_some(deployment)
    }

    /// The offset of a chunk; `None` for any other key.
    pub fn chunk_offset(&self) -> Option<u64> {
        let name = self.0.filename()?;
        (name.len() == 16).then(|| name.parse().ok())?
    }
}

impl BlobPrefix {
    /// All blobs of an organization.
    pub fn organization(org: OrgUuid) -> Self {
        Self(org.to_string().into())
    }

    /// All blobs of an organization's deployments.
    pub fn deployments(org: OrgUuid) -> Self {
        Self(format!("{org}/deployments").into())
    }

    /// All blobs of a deployment.
    pub fn deployment(org: OrgUuid, deployment: DeploymentId) -> Self {
        Self(folder(org, deployment).into())
    }

    /// The chunks of one stream of a deployment.
    pub fn chunks(org: OrgUuid, deployment: DeploymentId, stream: Stream) -> Self {
        let stream = stream.as_str();
        Self(format!("{}/{stream}", folder(org, deployment)).into())
    }
}

fn folder(org: OrgUuid, deployment: DeploymentId) -> String {
    format!("{org}/deployments/{deployment}")
}

impl fmt::Display for BlobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for BlobPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_starts_with_its_organization_and_chunks_sort_by_offset() {
        let org: OrgUuid = "01234567-89ab-4def-8123-456789abcdef".parse().unwrap();
        let deployment: DeploymentId = "0190a0b0-89ab-7def-8123-456789abcdef".parse().unwrap();
        let chunk = |offset| BlobKey::chunk(org, deployment, Stream::Log, offset);
        let keys = [
            BlobKey::archive(org, &"ab".repeat(32).parse().unwrap()),
            BlobKey::orphans(org, deployment, 2),
            BlobKey::outputs(org, deployment, 2),
            chunk(9),
        ];
        for key in &keys {
            assert!(key.to_string().starts_with(&format!("{org}/")), "{key}");
        }
        assert_eq!(
            keys[3].to_string(),
            "01234567-89ab-4def-8123-456789abcdef/deployments/\
             0190a0b0-89ab-7def-8123-456789abcdef/log/0000000000000009"
        );
        assert!(chunk(9) < chunk(10) && chunk(99_999) < chunk(100_000));
        assert_eq!(chunk(77).chunk_offset(), Some(77));
        assert_eq!(chunk(77).deployment_of_chunk(), Some(deployment));
        assert_eq!(keys[0].deployment_of_chunk(), None);
        assert_eq!(keys[2].deployment_of_chunk(), None);
        assert_eq!(keys[1].chunk_offset(), None);
    }
}
