//! Templates that want more than they may have, one by one and at random.

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
    all.extend(mounts_of_canyons());
    all
}

/// Mounts of volumes that Canyon adds after it has judged, by each kind of container.
fn mounts_of_canyons() -> Vec<Value> {
    let volumes = ["canyon-api-token", "canyon-work", "canyon-tmp"];
    let mounts =
        volumes.map(|name| json!({ "volumeMounts": [{ "name": name, "mountPath": "/a" }] }));
    let mut all = mounts.clone().map(with_container).to_vec();
    all.extend(mounts.map(|mut init| {
        init["name"] = json!("init");
        with_spec(json!({ "initContainers": [init] }))
    }));
    // As good as a prefix `CANYON_`, with keys such as `ON_CODE_ON_STDIN`.
    all.push(with_container(
        json!({ "envFrom": [{ "prefix": "CANY", "configMapRef": { "name": "c" } }] }),
    ));
    all
}

/// Names and keys that are Canyon's own, or read like them.
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
        "iam.amazonaws.com/role",
        "devices.nri.io/container.canyon-runner",
        "dev.gvisor.spec.mount.root.type",
        "job-name",
        "sidecar.istio.io/proxyImage",
        "sidecar.istio.io/userVolume",
        "inject.istio.io/templates",
        "istio.io/rev",
        "linkerd.io/inject",
        "config.linkerd.io/proxy-image",
        "k8s.v1.cni.cncf.io/networks",
        "v1.multus-cni.io/default-network",
        "vault.hashicorp.com/agent-image",
        "consul.hashicorp.com/connect-inject",
        "dapr.io/sidecar-image",
        "kuma.io/container-patches",
        "azure.workload.identity/inject-proxy-sidecar",
    ];
    all.extend(keys.map(|key| json!({ "metadata": { "annotations": { key: "x" } } })));
    for name in ["name", "namespace", "generateName", "finalizers", "ownerReferences"] {
        let value = if name.ends_with('s') { json!([]) } else { json!("x") };
        all.push(json!({ "metadata": { name: value } }));
    }
    all
}

#[test]
fn every_hostile_field_is_refused_for_itself_alone() {
    for template in hostile() {
        let refused = validated(&template).map_err(|faults| faults.iter().count());
        assert_eq!(refused, Err(1), "{template}");
    }
}

/// `one` with the members and list entries of `other` too.
fn beside(one: &mut Value, other: &Value) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            for (name, value) in other {
                match one.get_mut(name) {
                    Some(known) => beside(known, value),
                    None => drop(one.insert(name.clone(), value.clone())),
                }
            }
        }
        (Value::Array(one), Value::Array(other)) => one.extend(other.iter().cloned()),
        _ => {}
    }
}

fn is_refused(template: &Value) -> bool {
    !check(template.as_object().unwrap(), ACCOUNT).is_empty()
}

#[test]
fn what_calls_an_injector_is_refused_and_what_keeps_it_away_is_not() {
    for (key, off, others) in [
        ("sidecar.istio.io/inject", "false", ["true", ""]),
        ("linkerd.io/inject", "disabled", ["enabled", "ingress"]),
        ("vault.hashicorp.com/agent-inject", "false", ["true", "update"]),
        ("consul.hashicorp.com/connect-inject", "false", ["true", "disabled"]),
        ("dapr.io/enabled", "false", ["true", "y"]),
        ("kuma.io/sidecar-injection", "disabled", ["enabled", "true"]),
        ("istio.io/dataplane-mode", "none", ["ambient", "all"]),
        ("admission.datadoghq.com/enabled", "false", ["true", "yes"]),
    ] {
        for field in ["labels", "annotations"] {
            let template = |value: &str| json!({ "metadata": { field: { key: value } } });
            assert!(!is_refused(&template(off)), "{field} {key}");
            assert!(others.iter().all(|value| is_refused(&template(value))), "{field} {key}");
        }
    }
}

#[test]
fn a_part_that_cannot_work_hides_no_escape_beside_it() {
    let doubted = [
        with_spec(json!({ "$patch": "replace" })),
        with_spec(json!({ "terminationGracePeriodSeconds": "soon" })),
        with_spec(json!({ "tolerations": 5, "affinity": [], "dnsConfig": "x" })),
        with_spec(json!({ "initContainers": [{ "image": "nameless" }, null, 5] })),
        with_spec(json!({ "containers": [{ "name": CONTAINER }, { "name": CONTAINER }] })),
        with_spec(json!({ "volumes": [{ "emptyDir": {} }, "x", { "name": "b", "secret": 1 }] })),
        with_container(json!({ "env": [{ "name": "A" }, { "name": "A" }, { "name": 5 }] })),
        json!({ "metadata": { "labels": [], "annotations": { "a": 1 } } }),
    ];
    for part in &doubted {
        let found = check(part.as_object().unwrap(), ACCOUNT);
        assert!(found.is_empty() && !found.warnings().is_empty(), "{part}: {found}");
        for escape in hostile().into_iter().filter(is_refused) {
            let mut both = part.clone();
            beside(&mut both, &escape);
            assert!(is_refused(&both), "{both}");
        }
    }
}

#[test]
fn an_entry_that_cannot_be_matched_or_read_hides_no_escape_in_it() {
    let privileged = json!({ "securityContext": { "privileged": true } });
    let mut twin = privileged.clone();
    twin["name"] = json!("init");
    for spec in [
        json!({ "initContainers": [privileged] }),
        json!({ "initContainers": [{ "name": "init" }, twin] }),
        json!({ "containers": [{ "name": CONTAINER }, { "name": CONTAINER, "command": ["sh"] }] }),
        json!({ "volumes": [{ "hostPath": { "path": "/" } }] }),
        json!({ "volumes": [{ "name": "a", "hostPath": { "path": 5 } }] }),
        json!({ "securityContext": { "sysctls": [{ "name": 5 }, { "name": "a", "value": "1" }] } }),
        json!({ "securityContext": { "seLinuxOptions": { "level": 5, "type": "spc_t" } } }),
        json!({ "initContainers": [
            { "name": "a", "securityContext": { "capabilities": { "add": [5, "SYS_ADMIN"] } } },
        ] }),
    ] {
        assert!(is_refused(&with_spec(spec.clone())), "{spec}");
    }
    // What is left out of the reading is not missing: that would be an escape of its own.
    for spec in [
        json!({ "initContainers": [{ "name": 5 }] }),
        json!({ "volumes": [{ "name": 5, "emptyDir": {} }, { "name": "a", "emptyDir": "x" }] }),
        json!({ "initContainers": [{ "name": "a", "volumeMounts": [{ "mountPath": 5 }, {}] }] }),
        json!({ "securityContext": { "seccompProfile": { "type": 5 } } }),
    ] {
        let found = check(with_spec(spec.clone()).as_object().unwrap(), ACCOUNT);
        assert!(found.is_empty() && !found.warnings().is_empty(), "{spec}: {found}");
    }
}

#[test]
fn a_template_with_too_much_that_cannot_be_read_is_refused_since_nothing_is_known_of_the_rest() {
    for (count, refused) in [(20, false), (21, true)] {
        let variables: Vec<_> =
            (0..count).map(|n| json!({ "name": format!("A{n}"), "value": n })).collect();
        let template = with_container(json!({ "env": variables }));
        assert_eq!(is_refused(&template), refused, "{count}");
    }
}

/// A template drawn from harmless and hostile pieces, merged in any number and order.
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
        // Each piece is merged into the former ones; a piece that cannot be merged is left out.
        pieces.into_iter().fold(json!({}), |all, piece| merge(all.clone(), &piece).unwrap_or(all))
    })
}

/// What must hold of a pod that is sent to a cluster, read from its JSON.
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
        if let Ok(mut pod) = validate(&merged, ACCOUNT) {
            force(&mut pod, ACCOUNT, ApiToken::Projected);
            prop_assert_eq!(escapes(&serde_json::to_value(&pod).unwrap()), Vec::<&str>::new());
        }
    }

    #[test]
    fn forcing_alone_overrides_the_fields_that_it_sets(user in any_template()) {
        let merged = merge(default_template(ACCOUNT), &user).unwrap();
        if let Ok(known_fields::Read { template: mut pod, .. }) = known_fields::read(&merged) {
            force(&mut pod, ACCOUNT, ApiToken::Withheld);
            let found = escapes(&serde_json::to_value(&pod).unwrap());
            let judged = ["containers", "program", "host port", "hooks", "volume", "node"];
            prop_assert!(found.iter().all(|escape| judged.contains(escape)), "{:?}", found);
        }
    }

    #[test]
    fn merging_nothing_changes_nothing_and_merging_twice_is_merging_once(
        base in any_template(), user in any_template(),
    ) {
        prop_assert_eq!(&merge(base.clone(), &json!({})).unwrap(), &base);
        let once = merge(base, &user).unwrap();
        prop_assert_eq!(&merge(once.clone(), &user).unwrap(), &once);
    }
}
