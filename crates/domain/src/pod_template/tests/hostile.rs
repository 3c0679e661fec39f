//! Templates that request more than they may have, one by one and at random.

use super::*;
use proptest::prelude::*;

/// Templates that must be refused, each for one field.
fn hostile() -> Vec<Value> {
    let mut all = vec![];
    let specs = json!({
        "activeDeadlineSeconds": 5, "automountServiceAccountToken": true, "dnsPolicy": "ClusterFirstWithHostNet",
        "ephemeralContainers": [{ "name": "e" }], "hostIPC": true, "hostNetwork": true, "hostPID": true,
        "hostUsers": true, "hostname": "a", "hostnameOverride": "a", "nodeName": "node-1",
        "os": { "name": "windows" }, "overhead": { "cpu": "1" }, "priority": 2_000_000_000,
        "priorityClassName": "system-node-critical", "readinessGates": [{ "conditionType": "a" }],
        "resourceClaims": [{ "name": "gpu" }], "restartPolicy": "Always", "schedulingGates": [{ "name": "a" }],
        "serviceAccount": "admin", "serviceAccountName": "admin", "setHostnameAsFQDN": true,
        "shareProcessNamespace": true, "subdomain": "a", "terminationGracePeriodSeconds": 0,
        "resources": { "claims": [{ "name": "gpu" }] }, "hostnetwork": true, "containers": null,
    });
    for (name, value) in specs.as_object().unwrap() {
        all.push(with_spec(json!({ name: value })));
    }
    let containers = json!({
        "args": ["x"], "command": ["sh"], "workingDir": "/", "restartPolicy": "Always", "stdin": true,
        "tty": true, "stdinOnce": true, "lifecycle": { "preStop": {} }, "livenessProbe": {},
        "readinessProbe": {}, "startupProbe": {}, "ports": [{ "containerPort": 80, "hostPort": 80 }],
        "resizePolicy": [], "restartPolicyRules": [], "terminationMessagePath": "/etc/passwd",
        "terminationMessagePolicy": "FallbackToLogsOnError", "volumeDevices": [{ "devicePath": "/a", "name": "a" }],
        "env": [{ "name": "CANYON_API_URL", "value": "https://evil.example" }],
        "resources": { "claims": [{ "name": "gpu" }] }, "privileged": true,
        "envFrom": [{ "prefix": "canyon_code_", "secretRef": { "name": "s" } }],
    });
    for (name, value) in containers.as_object().unwrap() {
        all.push(with_container(json!({ name: value })));
    }
    let mounts = [
        json!({ "mountPath": "/proc/sys" }),
        json!({ "mountPath": "/" }),
        json!({ "mountPath": "/var//run" }),
        json!({ "mountPath": "/run/secrets/canyon/token" }),
        json!({ "mountPath": "/canyon/.netrc" }),
        json!({ "mountPath": "/a", "subPath": "../b" }),
        json!({ "mountPath": "/a/../dev" }),
        json!({ "mountPath": "/a", "mountPropagation": "Bidirectional" }),
        json!({ "mountPath": "a" }),
    ];
    for mut mount in mounts {
        mount["name"] = json!("a");
        all.push(with_container(json!({ "volumeMounts": [mount] })));
    }
    let contexts = json!({
        "allowPrivilegeEscalation": true, "privileged": true, "procMount": "Unmasked", "runAsNonRoot": false,
        "runAsUser": 0, "capabilities": { "add": ["NET_ADMIN"] }, "seLinuxOptions": { "type": "spc_t" },
        "seccompProfile": { "type": "Unconfined" }, "appArmorProfile": { "type": "Unconfined" },
        "windowsOptions": { "hostProcess": true },
    });
    for (name, value) in contexts.as_object().unwrap() {
        let context = json!({ "securityContext": { name: value } });
        all.push(with_container(context.clone()));
        let mut init = context;
        init["name"] = json!("init");
        all.push(with_spec(json!({ "initContainers": [init] })));
    }
    let pod_contexts = json!({
        "runAsNonRoot": false, "runAsUser": 0, "sysctls": [{ "name": "a", "value": "1" }],
        "seLinuxOptions": {}, "seLinuxChangePolicy": "Recursive", "windowsOptions": {},
        "seccompProfile": { "type": "Localhost", "localhostProfile": "a" },
        "appArmorProfile": { "type": "Unconfined" },
    });
    for (name, value) in pod_contexts.as_object().unwrap() {
        all.push(with_spec(json!({ "securityContext": { name: value } })));
    }
    let volumes = [
        json!({ "hostPath": { "path": "/" } }),
        json!({ "csi": { "driver": "a" } }),
        json!({}),
        json!({ "ephemeral": {} }),
        json!({ "nfs": { "path": "/", "server": "a" } }),
        json!({ "image": {} }),
        json!({ "gitRepo": { "repository": "a" } }),
        json!({ "emptyDir": {}, "secret": {} }),
        json!({ "projected": { "sources": [{ "podCertificate": { "keyType": "ED25519", "signerName": "a/b" } }] } }),
    ];
    for mut volume in volumes {
        volume["name"] = json!("a");
        all.push(with_spec(json!({ "volumes": [volume] })));
    }
    all.extend(hostile_names());
    all.extend(reserved_mounts());
    all
}

/// Mounts of volumes that Canyon adds after the validation, in each kind of container.
fn reserved_mounts() -> Vec<Value> {
    let volumes = ["canyon-api-token", "canyon-work", "canyon-tmp"];
    let mounts =
        volumes.map(|name| json!({ "volumeMounts": [{ "name": name, "mountPath": "/a" }] }));
    let mut all = mounts.clone().map(with_container).to_vec();
    all.extend(mounts.map(|mut init| {
        init["name"] = json!("init");
        with_spec(json!({ "initContainers": [init] }))
    }));
    // Equivalent to a prefix `CANYON_`, with keys such as `ON_CODE_ON_STDIN`.
    all.push(with_container(
        json!({ "envFrom": [{ "prefix": "CANY", "configMapRef": { "name": "c" } }] }),
    ));
    all
}

/// Names and keys that are reserved for Canyon, or resemble them.
fn hostile_names() -> Vec<Value> {
    let mut all = vec![];
    all.push(with_spec(json!({ "volumes": [{ "name": "canyon-api-token", "emptyDir": {} }] })));
    let names = [
        "canyon-runner-2",
        "cany0n-runner",
        "canyon-runne",
        "canyonrunner",
        "cаnyon-runner",
        "sidecar",
    ];
    all.extend(names.map(|name| with_spec(json!({ "containers": [{ "name": name }] }))));
    let init_names = ["canyon-runner", "cany0n-runner", "main", "cаnyon-runner", "A", ""];
    all.extend(init_names.map(|name| with_spec(json!({ "initContainers": [{ "name": name }] }))));
    let keys = [
        "container.apparmor.security.beta.kubernetes.io/canyon-runner",
        "io.kubernetes.cri-o.userns-mode",
        "canyon.dev/x",
        "job-name",
    ];
    all.extend(keys.map(|key| json!({ "metadata": { "annotations": { key: "x" } } })));
    for name in ["name", "namespace", "generateName", "finalizers", "ownerReferences"] {
        let value = if name.ends_with('s') { json!([]) } else { json!("x") };
        all.push(json!({ "metadata": { name: value } }));
    }
    all
}

#[test]
fn every_hostile_field_is_refused_with_one_fault() {
    for template in hostile() {
        let refused = validated(&template).map_err(|faults| faults.iter().count());
        assert_eq!(refused, Err(1), "{template}");
    }
}

/// A template of harmless and hostile pieces, merged in any number and order.
fn any_template() -> impl Strategy<Value = Value> {
    let harmless = vec![
        with_container(json!({ "image": "a", "env": [{ "name": "A", "value": "1" }] })),
        with_container(json!({ "securityContext": { "runAsUser": 7, "privileged": false } })),
        with_container(
            json!({ "volumeMounts": [{ "name": "v", "mountPath": "/v" }], "env": null }),
        ),
        with_spec(json!({ "volumes": [{ "name": "v", "emptyDir": {} }] })),
        with_spec(json!({ "volumes": [{ "name": "v", "secret": { "secretName": "s" } }] })),
        with_spec(json!({ "initContainers": [{ "name": "init", "env": [{ "name": "B" }] }] })),
        with_spec(json!({ "hostNetwork": false, "nodeSelector": { "a": "1", "b": null } })),
        with_spec(json!({ "automountServiceAccountToken": null, "restartPolicy": null })),
        with_spec(json!({ "serviceAccountName": null, "securityContext": { "runAsUser": 5 } })),
        with_spec(json!({ "tolerations": [{ "key": "a" }, { "key": "a" }] })),
    ];
    let piece = prop_oneof![
        3 => proptest::sample::select(harmless),
        1 => proptest::sample::select(hostile()),
    ];
    proptest::collection::vec(piece, 0..5).prop_map(|pieces| {
        // Later pieces are merged into earlier ones; those that cannot be merged are left out.
        pieces.into_iter().fold(json!({}), |all, piece| merge(all.clone(), &piece).unwrap_or(all))
    })
}

/// The violated requirements of a pod that is sent to a cluster, read from its JSON.
fn escapes(pod: &Value) -> Vec<&'static str> {
    let spec = &pod["spec"];
    let all = |list: &str| spec[list].as_array().cloned().unwrap_or_default();
    let mut found = vec![];
    let mut check = |holds: bool, what| {
        if !holds {
            found.push(what);
        }
    };
    check(spec["serviceAccountName"] == ACCOUNT && spec["serviceAccount"].is_null(), "account");
    check(spec["automountServiceAccountToken"] == false, "token");
    check(spec["restartPolicy"] == "Never", "restarts");
    for host in ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"] {
        check(spec[host] == false, "host");
    }
    check(spec["hostUsers"] != true && spec["nodeName"].is_null(), "node");
    check(spec["ephemeralContainers"].is_null(), "ephemeral containers");
    check(spec["securityContext"]["runAsNonRoot"] == true, "root pod");
    check(spec["securityContext"]["runAsUser"] != 0, "root pod user");
    check(spec["securityContext"]["sysctls"].is_null(), "sysctls");
    let containers = all("containers");
    check(containers.len() == 1 && containers[0]["name"] == CONTAINER, "containers");
    check(containers[0]["command"].is_null() && containers[0]["args"].is_null(), "program");
    for container in containers.iter().chain(&all("initContainers")) {
        let context = &container["securityContext"];
        check(context["privileged"] == false, "privileged");
        check(context["allowPrivilegeEscalation"] == false, "escalation");
        check(context["capabilities"] == json!({ "drop": ["ALL"] }), "capabilities");
        check(context["seccompProfile"] == json!({ "type": "RuntimeDefault" }), "seccomp");
        check(context["runAsNonRoot"] == true && context["runAsUser"] != 0, "root");
        check(context["procMount"].is_null() && context["seLinuxOptions"].is_null(), "kernel");
        check(!container.to_string().contains("hostPort"), "host port");
        check(container["lifecycle"].is_null() && container["livenessProbe"].is_null(), "hooks");
    }
    let allowed = [
        "configMap",
        "secret",
        "emptyDir",
        "projected",
        "downwardAPI",
        "persistentVolumeClaim",
        "name",
    ];
    for volume in all("volumes") {
        let kinds = volume.as_object().unwrap();
        check(kinds.keys().all(|kind| allowed.contains(&kind.as_str())), "volume");
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn a_random_template_is_refused_or_harmless(user in any_template()) {
        let merged = merge(default_template(ACCOUNT), &user).unwrap();
        if let Ok(mut pod) = judge(&merged, ACCOUNT) {
            force(&mut pod, ACCOUNT, ApiToken::Projected);
            prop_assert_eq!(escapes(&serde_json::to_value(&pod).unwrap()), Vec::<&str>::new());
        }
    }

    #[test]
    fn forcing_alone_overrides_the_fields_that_it_sets(user in any_template()) {
        let merged = merge(default_template(ACCOUNT), &user).unwrap();
        if let Ok((mut pod, _)) = known_fields::read(&merged) {
            force(&mut pod, ACCOUNT, ApiToken::Withheld);
            let found = escapes(&serde_json::to_value(&pod).unwrap());
            let validated = ["containers", "program", "host port", "hooks", "volume", "node"];
            prop_assert!(found.iter().all(|escape| validated.contains(escape)), "{:?}", found);
        }
    }

    #[test]
    fn merging_an_empty_template_changes_nothing_and_merging_is_idempotent(
        base in any_template(), user in any_template(),
    ) {
        prop_assert_eq!(&merge(base.clone(), &json!({})).unwrap(), &base);
        let once = merge(base, &user).unwrap();
        prop_assert_eq!(&merge(once.clone(), &user).unwrap(), &once);
    }
}
