use super::*;

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("{other}"),
    }
}

fn parse(agents: Option<Value>, job: Value) -> Result<ProfileSettings, String> {
    ProfileSettings::parse(agents, object(job)).map_err(|faults| faults.to_string())
}

fn docker() -> RunnerDefinition {
    RunnerDefinition::parse(json!({
        "runner_configuration": {
            "type": "docker-agent",
            "agents": { "ids": ["a1"] },
            "job": { "image": "canyon-runner:1", "environment": { "A": "1", "B": "2" } },
        },
        "state_storage_configuration": { "type": "s3", "bucket": "states" },
    }))
    .unwrap()
}

#[test]
fn a_profile_changes_what_it_names_and_leaves_the_rest() {
    let agents = json!({ "labels": { "site": "berlin" } });
    let job = json!({ "environment": { "B": null, "C": "3" }, "memory_limit": 512 });
    let settings = parse(Some(agents.clone()), job).unwrap();
    assert_eq!(settings.kinds().unwrap(), [RunnerType::DockerAgent]);
    let changed = settings.applied_to(&docker()).unwrap().to_value();
    let changed = &changed["runner_configuration"];
    assert_eq!(changed["agents"], agents);
    assert_eq!(
        changed["job"],
        json!({ "image": "canyon-runner:1", "environment": { "A": "1", "C": "3" }, "memory_limit": 512 })
    );
    let nothing = ProfileSettings::default().applied_to(&docker()).unwrap();
    assert_eq!(nothing.to_value(), docker().to_value());
}

#[test]
fn settings_that_fit_no_type_are_refused_with_the_faults_of_the_best_match() {
    for (job, expected) in [
        (json!({ "memory_limit": 1 }), "`job.memory_limit` must be a whole number"),
        (json!({ "pod_template": { "spec": { "hostNetwork": true } } }), "hostNetwork"),
        (json!({ "namespace": null, "deny_metadata_access": true }), "`job.namespace` is required"),
        (json!({ "identity": {} }), "`job.identity` is the runner's alone"),
    ] {
        let refusal = parse(None, job).unwrap_err();
        assert!(refusal.contains(expected), "{refusal}");
    }
    let both = json!({ "ids": ["a"], "labels": { "a": "b" } });
    assert!(parse(Some(both), json!({})).unwrap_err().contains("`agents`"));
}

#[test]
fn a_profile_for_one_type_does_not_fit_a_runner_of_another() {
    let settings = parse(None, json!({ "cpu": 1024, "memory": 4096 })).unwrap();
    assert_eq!(settings.kinds().unwrap(), [RunnerType::EcsAgent]);
    let refusal = settings.applied_to(&docker()).unwrap_err().to_string();
    assert!(refusal.contains("`job.cpu` is not a known field"), "{refusal}");
}
