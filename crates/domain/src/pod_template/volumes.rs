//! Judging a merged template: volumes.

use super::pod_spec::{Findings, is_free_name};
use k8s_openapi::api::core::v1::{ProjectedVolumeSource, Volume, VolumeProjection};

const KINDS: &str =
    "use configMap, secret, emptyDir, projected, downwardAPI or persistentVolumeClaim";

pub(super) fn validate(volume: &Volume, path: &str, findings: &mut Findings) {
    let Volume {
        aws_elastic_block_store,
        azure_disk,
        azure_file,
        cephfs,
        cinder,
        config_map,
        csi,
        downward_api,
        empty_dir,
        ephemeral,
        fc,
        flex_volume,
        flocker,
        gce_persistent_disk,
        git_repo,
        glusterfs,
        host_path,
        image,
        iscsi,
        name,
        nfs,
        persistent_volume_claim,
        photon_persistent_disk,
        portworx_volume,
        projected,
        quobyte,
        rbd,
        scale_io,
        secret,
        storageos,
        vsphere_volume,
    } = volume;
    let refused = [
        ("awsElasticBlockStore", aws_elastic_block_store.is_some()),
        ("azureDisk", azure_disk.is_some()),
        ("azureFile", azure_file.is_some()),
        ("cephfs", cephfs.is_some()),
        ("cinder", cinder.is_some()),
        ("csi", csi.is_some()),
        ("ephemeral", ephemeral.is_some()),
        ("fc", fc.is_some()),
        ("flexVolume", flex_volume.is_some()),
        ("flocker", flocker.is_some()),
        ("gcePersistentDisk", gce_persistent_disk.is_some()),
        ("gitRepo", git_repo.is_some()),
        ("glusterfs", glusterfs.is_some()),
        ("hostPath", host_path.is_some()),
        ("image", image.is_some()),
        ("iscsi", iscsi.is_some()),
        ("nfs", nfs.is_some()),
        ("photonPersistentDisk", photon_persistent_disk.is_some()),
        ("portworxVolume", portworx_volume.is_some()),
        ("quobyte", quobyte.is_some()),
        ("rbd", rbd.is_some()),
        ("scaleIO", scale_io.is_some()),
        ("storageos", storageos.is_some()),
        ("vsphereVolume", vsphere_volume.is_some()),
    ];
    let mut any_refused = false;
    for (kind, _) in refused.into_iter().filter(|(_, given)| *given) {
        any_refused = true;
        findings.reject_unless(format!("{path}.{kind}"), false, KINDS);
    }
    let allowed = [
        config_map.is_some(),
        downward_api.is_some(),
        empty_dir.is_some(),
        persistent_volume_claim.is_some(),
        projected.is_some(),
        secret.is_some(),
    ];
    let sources = allowed.into_iter().filter(|given| *given).count();
    findings.warn_unless(path.to_owned(), sources > 0 || any_refused, "it must have one source");
    findings.reject_unless(path.to_owned(), sources < 2, "it must have one source");
    let free = "use lower case letters, digits and hyphens, not starting with `canyon-`";
    findings.reject_unless(format!("{path}.name"), is_free_name(name), free);
    if let Some(ProjectedVolumeSource { default_mode: _, sources }) = projected {
        for (n, source) in sources.iter().flatten().enumerate() {
            validate_projection(source, &format!("{path}.projected.sources[{n}]"), findings);
        }
    }
}

/// A token of the service account is allowed, for any audience: the job is that account, and cloud
/// logins by workload identity need such tokens.
fn validate_projection(source: &VolumeProjection, path: &str, findings: &mut Findings) {
    let VolumeProjection {
        cluster_trust_bundle: _,
        config_map: _,
        downward_api: _,
        pod_certificate,
        secret: _,
        service_account_token: _,
    } = source;
    let certificate = "the job must not ask for certificates in the cluster's name";
    findings.reject_if_set(format!("{path}.podCertificate"), pod_certificate.as_ref(), certificate);
}
