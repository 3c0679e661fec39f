//! Judging a merged template: security contexts. They may only tighten what [`super::force`] sets.

use super::judge::Verdict;
use k8s_openapi::api::core::v1::{
    AppArmorProfile, Capabilities, PodSecurityContext, SeccompProfile, SecurityContext,
};

const ROOT: &str = "the job must not run as root";
const OTHER_SYSTEM: &str = "the runner is a Linux program";
const LABELS: &str = "the container runtime chooses the SELinux labels";

pub(super) fn judge_pod(context: &PodSecurityContext, path: &str, verdict: &mut Verdict) {
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
    judge_app_armor(app_armor_profile.as_ref(), at("appArmorProfile"), verdict);
    verdict.require(at("runAsNonRoot"), *run_as_non_root != Some(false), ROOT);
    verdict.require(at("runAsUser"), run_as_user.is_none_or(|user| user > 0), ROOT);
    verdict.refuse(at("seLinuxChangePolicy"), se_linux_change_policy.as_ref(), LABELS);
    verdict.refuse(at("seLinuxOptions"), se_linux_options.as_ref(), LABELS);
    judge_seccomp(seccomp_profile.as_ref(), at("seccompProfile"), verdict);
    verdict.refuse(at("sysctls"), sysctls.as_ref(), "the job must not change its node's kernel");
    verdict.refuse(at("windowsOptions"), windows_options.as_ref(), OTHER_SYSTEM);
}

pub(super) fn judge_container(context: &SecurityContext, path: &str, verdict: &mut Verdict) {
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
    verdict.require(at("allowPrivilegeEscalation"), !escalates, rights);
    judge_app_armor(app_armor_profile.as_ref(), at("appArmorProfile"), verdict);
    if let Some(Capabilities { add, drop: _ }) = capabilities {
        let adds = add.as_ref().is_some_and(|add| !add.is_empty());
        verdict.require(at("capabilities.add"), !adds, rights);
    }
    verdict.require(at("privileged"), *privileged != Some(true), rights);
    let masked = proc_mount.as_deref().is_none_or(|mount| mount == "Default");
    verdict.require(at("procMount"), masked, rights);
    verdict.require(at("runAsNonRoot"), *run_as_non_root != Some(false), ROOT);
    verdict.require(at("runAsUser"), run_as_user.is_none_or(|user| user > 0), ROOT);
    verdict.refuse(at("seLinuxOptions"), se_linux_options.as_ref(), LABELS);
    judge_seccomp(seccomp_profile.as_ref(), at("seccompProfile"), verdict);
    verdict.refuse(at("windowsOptions"), windows_options.as_ref(), OTHER_SYSTEM);
}

/// A profile of the node's own could allow anything.
const PROFILE: &str = "use RuntimeDefault";

fn judge_profile(path: String, kind: &str, file: Option<&String>, verdict: &mut Verdict) {
    if kind.is_empty() && file.is_none() {
        // No cluster takes it.
        return verdict.expect(path, false, PROFILE);
    }
    verdict.require(path, kind == "RuntimeDefault" && file.is_none(), PROFILE);
}

fn judge_app_armor(profile: Option<&AppArmorProfile>, path: String, verdict: &mut Verdict) {
    if let Some(AppArmorProfile { localhost_profile, type_ }) = profile {
        judge_profile(path, type_, localhost_profile.as_ref(), verdict);
    }
}

fn judge_seccomp(profile: Option<&SeccompProfile>, path: String, verdict: &mut Verdict) {
    if let Some(SeccompProfile { localhost_profile, type_ }) = profile {
        judge_profile(path, type_, localhost_profile.as_ref(), verdict);
    }
}
