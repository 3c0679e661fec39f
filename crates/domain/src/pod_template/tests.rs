use super::*;

mod hostile;

const ACCOUNT: &str = "canyon-runner";

fn validated(template: &Value) -> Result<(), FieldErrors> {
    check(template.as_object().unwrap(), ACCOUNT).into_faults().into_result(())
}

/// A template whose `spec` is `spec`.
fn with_spec(spec: Value) -> Value {
    Value::Object(Map::from_iter([("spec".to_owned(), spec)]))
}

/// A template whose container has also the fields of `container`.
fn with_container(mut container: Value) -> Value {
    container["name"] = json!(CONTAINER);
    with_spec(json!({ "containers": [container] }))
}

#[test]
fn the_documented_image_override_merges_by_container_name() {
    let user = with_spec(json!({
        "containers": [{
            "name": "canyon-runner",
            "image": "my-own-registry.com/humanitec/canyon-runner:vx.y.z",
            "imagePullPolicy": "IfNotPresent",
        }],
        "imagePullSecrets": [{ "name": "regcred" }],
    }));
    let ours = json!({"spec": {"containers": [{
        "name": "canyon-runner", "image": "ours", "env": [{"name": "A", "value": "1"}],
    }]}});
    insta::assert_snapshot!(merge(ours, &user).unwrap(), @r#"{"spec":{"containers":[{"env":[{"name":"A","value":"1"}],"image":"my-own-registry.com/humanitec/canyon-runner:vx.y.z","imagePullPolicy":"IfNotPresent","name":"canyon-runner"}],"imagePullSecrets":[{"name":"regcred"}]}}"#);
    assert!(validated(&user).is_ok());
}

#[test]
fn lists_merge_by_their_keys_and_null_deletes() {
    let base = with_spec(json!({
        "containers": [{ "name": "canyon-runner", "env": [
            { "name": "A", "value": "1" }, { "name": "B", "value": "2" },
        ]}],
        "tolerations": [{ "key": "a" }],
        "volumes": [{ "name": "tmp", "emptyDir": {} }],
        "nodeSelector": { "a": "1", "b": "2" },
        "hostAliases": [{ "ip": "10.0.0.1", "hostnames": ["a"] }],
    }));
    let user = with_spec(json!({
        "containers": [{ "name": "main", "env": [
            { "name": "B", "value": null, "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } },
            { "name": "C", "value": "3" },
        ]}],
        "tolerations": [{ "key": "b" }],
        "volumes": [{ "name": "tmp", "secret": { "secretName": "s" } }],
        "nodeSelector": { "a": null, "c": "3" },
        "hostAliases": [{ "ip": "10.0.0.1", "hostnames": ["b"] }, { "ip": "10.0.0.2" }],
    }));
    let merged = serde_json::to_string_pretty(&merge(base, &user).unwrap()).unwrap();
    insta::assert_snapshot!(merged, @r#"
    {
      "spec": {
        "containers": [
          {
            "env": [
              {
                "name": "A",
                "value": "1"
              },
              {
                "name": "B",
                "valueFrom": {
                  "secretKeyRef": {
                    "key": "k",
                    "name": "s"
                  }
                }
              },
              {
                "name": "C",
                "value": "3"
              }
            ],
            "name": "canyon-runner"
          }
        ],
        "hostAliases": [
          {
            "hostnames": [
              "b"
            ],
            "ip": "10.0.0.1"
          },
          {
            "ip": "10.0.0.2"
          }
        ],
        "nodeSelector": {
          "b": "2",
          "c": "3"
        },
        "tolerations": [
          {
            "key": "b"
          }
        ],
        "volumes": [
          {
            "name": "tmp",
            "secret": {
              "secretName": "s"
            }
          }
        ]
      }
    }
    "#);
}

#[test]
fn an_ambiguous_merge_is_refused() {
    let cases = [
        json!({ "spec": { "$patch": "replace" } }),
        with_spec(json!({ "containers": [{ "$patch": "delete", "name": "canyon-runner" }] })),
        with_spec(json!({ "containers": [{ "image": "a" }] })),
        with_spec(json!({ "containers": [null] })),
        with_container(json!({ "env": [{ "name": "A" }, { "name": "A" }] })),
        with_spec(json!({ "containers": [{ "name": "main" }, { "name": "main" }] })),
    ];
    let errors = cases.map(|user| merge(json!({}), &user).unwrap_err().to_string());
    insta::assert_snapshot!(errors.join("\n"), @r#"
    `spec.$patch` is a directive, which is not supported here; use null to delete
    `spec.containers[0].$patch` is a directive, which is not supported here; use null to delete
    `spec.containers[0]` must be an object with `name`, which entries are matched by
    `spec.containers[0]` must be an object with `name`, which entries are matched by
    `spec.containers[0].env[1]` has the same `name` as an earlier entry
    `spec.containers[1]` has the same `name` as an earlier entry
    "#);
}

#[test]
fn the_usual_settings_are_allowed() {
    let template = json!({
        "metadata": {
            "labels": {
                "team": "platform", "azure.workload.identity/use": "true", "sidecar.istio.io/inject": "false",
            },
            "annotations": {
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "linkerd.io/inject": "disabled",
                "example.com/cost-center": "4711", "vault.hashicorp.com/agent-inject": "false",
            },
        },
        "spec": {
            "containers": [{
                "name": "canyon-runner",
                "image": "registry.example.com/runner:1",
                "env": [{ "name": "HTTPS_PROXY", "value": "http://proxy:3128" }],
                "envFrom": [{ "secretRef": { "name": "credentials" } }],
                "resources": { "requests": { "cpu": 1, "memory": "1Gi" }, "limits": { "cpu": 0.5 } },
                "volumeMounts": [{ "name": "cache", "mountPath": "/var/run/cache" }],
                "securityContext": {
                    "runAsUser": 1000, "readOnlyRootFilesystem": true, "runAsNonRoot": true,
                    "capabilities": { "drop": ["ALL"] },
                },
            }],
            "initContainers": [{ "name": "proxy", "image": "p", "restartPolicy": "Always", "args": ["x"] }],
            "imagePullSecrets": [{ "name": "regcred" }],
            "nodeSelector": { "pool": "runners" },
            "tolerations": [{ "operator": "Exists" }],
            "affinity": { "nodeAffinity": {} },
            "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule" }],
            "priorityClassName": "batch",
            "runtimeClassName": "gvisor",
            "serviceAccountName": ACCOUNT,
            "hostNetwork": false,
            "dnsPolicy": "None",
            "dnsConfig": { "nameservers": ["10.0.0.10"] },
            "hostAliases": [{ "ip": "10.0.0.1", "hostnames": ["git.internal"] }],
            "terminationGracePeriodSeconds": 60,
            "securityContext": { "fsGroup": 1000, "seccompProfile": { "type": "RuntimeDefault" } },
            "volumes": [
                { "name": "cache", "emptyDir": { "sizeLimit": "1Gi" } },
                { "name": "token", "projected": { "sources": [
                    { "serviceAccountToken": { "audience": "sts.amazonaws.com", "path": "token" } },
                ] } },
                { "name": "data", "persistentVolumeClaim": { "claimName": "data" } },
            ],
        },
    });
    assert_eq!(validated(&template), Ok(()));
}

#[test]
fn a_refusal_names_the_path_and_the_reason_and_never_the_value() {
    let template = json!({
        "spec": {
            "hostNetwork": true,
            "serviceAccountName": "hunter2",
            "containers": [{ "name": "canyon-runner", "imagee": "x", "securityContext": { "privileged": true } }],
            "volumes": [{ "name": "root", "hostPath": { "path": "/hunter2" } }],
        },
    });
    insta::assert_snapshot!(validated(&template).unwrap_err().to_string().replace("; `", "\n`"), @r#"
    `spec.hostNetwork` is refused: the job must not share namespaces with its node
    `spec.serviceAccountName` is refused: the job runs as the `service_account` of `job`
    `spec.containers[0].securityContext.privileged` is refused: the job must not gain rights over its node
    `spec.volumes[0].hostPath` is refused: use configMap, secret, emptyDir, projected, downwardAPI or persistentVolumeClaim
    `spec.containers[0].imagee` is not a field that Kubernetes has here
    "#);
    let wrong = with_spec(json!({ "hostNetwork": "hunter2" }));
    insta::assert_snapshot!(validated(&wrong).unwrap_err(), @"`spec.hostNetwork` must be a boolean");
}

#[test]
fn the_forced_token_is_mounted_for_the_runner_alone() {
    let user = with_spec(json!({ "initContainers": [{ "name": "proxy" }] }));
    let merged = merge(default_template(ACCOUNT), &user).unwrap();
    for (token, mounts) in [(ApiToken::Projected, 1), (ApiToken::Withheld, 0)] {
        let mut pod = validate(&merged, ACCOUNT).unwrap();
        force(&mut pod, ACCOUNT, token);
        let spec = pod.spec.unwrap();
        assert_eq!(spec.containers[0].volume_mounts.iter().flatten().count(), mounts);
        assert_eq!(spec.init_containers.unwrap()[0].volume_mounts, None);
        assert_eq!(spec.automount_service_account_token, Some(false));
    }
}
