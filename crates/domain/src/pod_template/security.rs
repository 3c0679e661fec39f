//! Judging a merged template: security contexts. They may only tighten what [`super::force`] sets.

use super::pod_spec::Findings;
use k8s_openapi::api::core::v1::{
    AppArmorProfile, Capabilities, PodSecurityContext, SeccompProfile, SecurityContext,
};

const ROOT: &str = "the job must not run as root";
const OTHER_SYSTEM: &str = "the runner is a Linux program";
const LABELS: &str = "the container runtime chooses the SELinux labels";

pub(super) fn validate_pod(context: &PodSecurityContext, path: &str, findings: &mut Findings) {
    let PodSecurityContext {
        app_armor_profile,
        fs_group: _,
        fs_group_change_policy: _,
        run_as_group: _,
        run_as_non_root,
        run_as_user,
        se_linux_change_policy,
        se_linux_options,
        seccomp_profile,
        supplemental_groups: _,
        supplemental_groups_policy: _,
        sysctls,
        windows_options,
    } = context;
    let at = |name: &str| format!("{path}.{name}");
    validate_app_armor(app_armor_profile.as_ref(), at("appArmorProfile"), findings);
    findings.reject_unless(at("runAsNonRoot"), *run_as_non_root != Some(false), ROOT);
    findings.reject_unless(at("runAsUser"), run_as_user.is_none_or(|user| user > 0), ROOT);
    findings.reject_if_set(at("seLinuxChangePolicy"), se_linux_change_policy.as_ref(), LABELS);
    findings.reject_if_set(at("seLinuxOptions"), se_linux_options.as_ref(), LABELS);
    validate_seccomp(seccomp_profile.as_ref(), at("seccompProfile"), findings);
    findings.reject_if_set(
        at("sysctls"),
        sysctls.as_ref(),
        "the job must not change its node's kernel",
    );
    findings.reject_if_set(at("windowsOptions"), windows_options.as_ref(), OTHER_SYSTEM);
}

pub(super) fn validate_container(context: &SecurityContext, path: &str, findings: &mut Findings) {
    let SecurityContext {
        allow_privilege_escalation,
        app_armor_profile,
        capabilities,
        privileged,
        proc_mount,
        read_only_root_filesystem: _,
        run_as_group: _,
        run_as_non_root,
        run_as_user,
        se_linux_options,
        seccomp_profile,
        windows_options,
    } = context;
    let at = |name: &str| format!("{path}.{name}");
    let rights = "the job must not gain rights over its node";
    let escalates = *allow_privilege_escalation == Some(true);
    findings.reject_unless(at("allowPrivilegeEscalation"), !escalates, rights);
    validate_app_armor(app_armor_profile.as_ref(), at("appArmorProfile"), findings);
    if let Some(Capabilities { add, drop: _ }) = capabilities {
        let adds = add.as_ref().is_some_and(|add| !add.is_empty());
        findings.reject_unless(at("capabilities.add"), !adds, rights);
    }
    findings.reject_unless(at("privileged"), *privileged != Some(true), rights);
    let masked = proc_mount.as_deref().is_none_or(|mount| mount == "Default");
    findings.reject_unless(at("procMount"), masked, rights);
    findings.reject_unless(at("runAsNonRoot"), *run_as_non_root != Some(false), ROOT);
    findings.reject_unless(at("runAsUser"), run_as_user.is_none_or(|user| user > 0), ROOT);
    findings.reject_if_set(at("seLinuxOptions"), se_linux_options.as_ref(), LABELS);
    validate_seccomp(seccomp_profile.as_ref(), at("seccompProfile"), findings);
    findings.reject_if_set(at("windowsOptions"), windows_options.as_ref(), OTHER_SYSTEM);
}

/// A profile of the node's own could allow anything.
const PROFILE: &str = "use RuntimeDefault";

fn validate_profile(path: String, kind: &str, file: Option<&String>, findings: &mut Findings) {
    if kind.is_empty() && file.is_none() {
        // No cluster takes it.
        return findings.warn_unless(path, false, PROFILE);
    }
    findings.reject_unless(path, kind == "RuntimeDefault" && file.is_none(), PROFILE);
}

fn validate_app_armor(profile: Option<&AppArmorProfile>, path: String, findings: &mut Findings) {
    if let Some(AppArmorProfile { localhost_profile, type_ }) = profile {
        validate_profile(path, type_, localhost_profile.as_ref(), findings);
    }
}

fn validate_seccomp(profile: Option<&SeccompProfile>, path: String, findings: &mut Findings) {
    if let Some(SeccompProfile { localhost_profile, type_ }) = profile {
        validate_profile(path, type_, localhost_profile.as_ref(), findings);
    }
}
