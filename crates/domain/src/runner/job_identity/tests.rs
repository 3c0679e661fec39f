//! A job's identity: what a definition may say, and who a job is then.

use super::*;
use crate::field_error::FieldErrors;

fn read(value: Value) -> Result<JobIdentity, Vec<String>> {
    let mut errors = FieldErrors::default();
    let identity = Fields::read(value, "identity", &mut errors, JobIdentity::read);
    let faults: Vec<_> = errors.iter().map(|error| error.path.clone()).collect();
    if faults.is_empty() { Ok(identity.unwrap()) } else { Err(faults) }
}

#[test]
fn an_identity_comes_back_as_it_was_given() {
    let given = json!({
        "aws": {
            "role_arn": "arn:aws:iam::123456789012:role/apply",
            "plan_role_arn": "arn:aws:iam::123456789012:role/plan", "region": "eu-west-1",
        },
        "gcp": {
            "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/a/providers/b",
            "service_account": "apply@p.iam.gserviceaccount.com",
        },
        "azure": {
            "tenant_id": "00000000-0000-7000-8000-000000000001",
            "client_id": "00000000-0000-7000-8000-000000000002",
        },
        "tokens": [{ "name": "vault-eu", "audience": "https://vault.example.com" }],
    });
    let identity = read(given.clone()).unwrap();
    assert_eq!(serde_json::to_value(&identity).unwrap(), given);
    assert_eq!(serde_json::from_value::<JobIdentity>(given).unwrap(), identity);
    assert_eq!(identity.audiences().len(), 4);
    let aws = identity.aws.unwrap();
    assert!(aws.role(TokenPhase::Plan).ends_with("/plan"));
    assert!(aws.role(TokenPhase::Apply).ends_with("/apply"));
    assert_eq!(
        identity.gcp.unwrap().account(TokenPhase::Plan),
        Some("apply@p.iam.gserviceaccount.com")
    );
    assert_eq!(identity.tokens.unwrap()[0].variable(), "CANYON_TOKEN_FILE_VAULT_EU");
}

#[test]
fn every_invalid_field_is_named() {
    let faults = read(json!({
        "aws": { "role_arn": "arn:aws-cn:iam::123456789012:role/a", "region": "eu-west-1" },
        "gcp": { "audience": "sts" },
        "azure": { "tenant_id": "common" },
        "tokens": [
            { "name": "a-b", "audience": "x" }, { "name": "a_b", "audience": "y" },
            { "name": "../a", "audience": "" },
        ],
        "oracle": {},
    }))
    .unwrap_err();
    let expected = [
        "identity.aws.role_arn",
        "identity.gcp.audience",
        "identity.azure.tenant_id",
        "identity.azure.client_id",
        "identity.tokens[2].name",
        "identity.tokens[2].audience",
        "identity.tokens[1].name",
        "identity.oracle",
    ];
    assert_eq!(faults, expected);
}

#[test]
fn a_plan_never_has_a_token_of_an_apply() {
    use Phase as P;
    for (reached, plan_only, expected) in [
        (P::Launch, false, false),
        (P::Plan, false, false),
        (P::Apply, false, true),
        (P::Apply, true, false),
    ] {
        assert_eq!(TokenPhase::Apply.is_reached(reached, plan_only), expected, "{reached:?}");
        assert!(TokenPhase::Plan.is_reached(reached, plan_only));
    }
}

const AWS: [&str; 4] = ["apply", "plan", "class", "other"];

fn arn(name: &str) -> String {
    format!("arn:aws:iam::123456789012:role/{name}")
}

fn client(n: u8) -> String {
    format!("00000000-0000-7000-8000-00000000000{n}")
}

/// An identity whose roles at each cloud have these names: of all jobs, of plans by the older field, and by class.
fn with_roles(older: Option<&str>, by_class: &[(RoleClass, &str)]) -> JobIdentity {
    let number = |name: &str| {
        let at = AWS.iter().position(|known| *known == name).unwrap();
        client(u8::try_from(at).unwrap())
    };
    let account = |name: &str| format!("{name}@p.iam.gserviceaccount.com");
    let roles: Map<String, Value> = by_class
        .iter()
        .map(|(class, name)| {
            let roles = json!({
                "aws_role_arn": arn(name), "gcp_service_account": account(name), "azure_client_id": number(name),
            });
            (class.as_str().to_owned(), roles)
        })
        .collect();
    let given = json!({
        "aws": { "role_arn": arn("apply"), "plan_role_arn": older.map(arn) },
        "gcp": {
            "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/a/providers/b",
            "service_account": account("apply"), "plan_service_account": older.map(account),
        },
        "azure": {
            "tenant_id": client(9), "client_id": number("apply"), "plan_client_id": older.map(number),
        },
        "job_roles": roles,
    });
    read(given).unwrap()
}

/// Who the job is in each phase: the same name at each cloud.
fn names(identity: &JobIdentity) -> [&str; 2] {
    assert_eq!(identity.job_roles, None);
    [TokenPhase::Plan, TokenPhase::Apply].map(|phase| {
        let aws = identity.aws.as_ref().unwrap().role(phase).rsplit('/').next().unwrap();
        let gcp = identity.gcp.as_ref().unwrap().account(phase).unwrap();
        assert_eq!(gcp.split('@').next(), Some(aws));
        let at = identity.azure.as_ref().unwrap().client(phase).chars().last().unwrap();
        let azure = AWS.get(at.to_digit(10).unwrap() as usize).unwrap();
        assert_eq!(*azure, aws);
        aws
    })
}

#[test]
fn each_phase_has_the_role_of_its_class_and_else_that_of_all_jobs() {
    use RoleClass as C;
    for (older, by_class, mode, expected) in [
        (None, &[][..], Mode::Deploy, ["apply", "apply"]),
        (Some("plan"), &[], Mode::Deploy, ["plan", "apply"]),
        (Some("plan"), &[], Mode::Destroy, ["plan", "apply"]),
        (None, &[(C::Plan, "plan")], Mode::Rollback, ["plan", "apply"]),
        (None, &[(C::Plan, "plan"), (C::Destroy, "class")], Mode::Destroy, ["plan", "class"]),
        (None, &[(C::Plan, "plan"), (C::Destroy, "class")], Mode::Deploy, ["plan", "apply"]),
        (Some("plan"), &[(C::Destroy, "class")], Mode::Destroy, ["plan", "class"]),
        // What is not named is the role of all jobs, and not that of another class.
        (None, &[(C::Apply, "class")], Mode::Deploy, ["apply", "class"]),
        (None, &[(C::Apply, "class")], Mode::Destroy, ["apply", "apply"]),
        (None, &[(C::Apply, "class"), (C::Destroy, "other")], Mode::State, ["apply", "class"]),
        (None, &[(C::Apply, "plan"), (C::Plan, "plan")], Mode::State, ["plan", "plan"]),
    ] {
        let identity = with_roles(older, by_class);
        assert_eq!(
            names(&identity.of_run(mode, None)),
            expected,
            "{older:?} {by_class:?} {mode:?}"
        );
        // As a program of an earlier version reads it.
        let sent = serde_json::to_value(identity.of_run(mode, None)).unwrap();
        assert_eq!(names(&serde_json::from_value(sent).unwrap()), expected);
    }
}

#[test]
fn a_named_role_is_that_of_each_phase_and_a_cloud_that_it_leaves_out_keeps_its_own() {
    let aws_role_arn = Some(arn("other"));
    let identity = with_roles(None, &[(RoleClass::Plan, "plan"), (RoleClass::Destroy, "class")]);
    let everywhere = CloudRoles {
        gcp_service_account: Some("other@p.iam.gserviceaccount.com".to_owned()),
        aws_role_arn: aws_role_arn.clone(),
        azure_client_id: Some(client(3)),
    };
    for mode in [Mode::Deploy, Mode::Destroy] {
        assert_eq!(names(&identity.of_run(mode, Some(&everywhere))), ["other", "other"]);
    }
    let only_aws = CloudRoles { aws_role_arn, ..CloudRoles::default() };
    let of_run = identity.of_run(Mode::Destroy, Some(&only_aws));
    let aws = of_run.aws.unwrap();
    assert_eq!((aws.role_arn, aws.plan_role_arn), (arn("other"), None));
    let azure = of_run.azure.unwrap();
    assert_eq!((azure.client_id, azure.plan_client_id), (client(2), Some(client(1))));
}

#[test]
fn a_role_that_replaces_nothing_or_is_given_twice_is_named() {
    let faults = read(json!({
        "aws": { "role_arn": arn("a"), "plan_role_arn": arn("b"), "region": "eu-west-1" },
        "gcp": { "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/a/providers/b" },
        "job_roles": {
            "plan": { "aws_role_arn": arn("c"), "gcp_service_account": "a@p.iam.gserviceaccount.com" },
            "apply": { "azure_client_id": client(1), "aws_role_arn": "arn:aws-cn:iam::123456789012:role/a" },
            "destroy": { "aws_role_arn": "shop", "role": "b" },
            "action": {},
        },
        "named_roles": {
            "fix": { "aws_role_arn": arn("c"), "env_types": ["Dev"], "kinds": ["image"], "requires": ["approval"], "max": 1 },
            "apply": { "aws_role_arn": arn("c") },
            "empty": { "enabled": false },
            "cloudless": { "azure_client_id": client(1) },
        },
    }))
    .unwrap_err();
    let expected = [
        "identity.job_roles.destroy.aws_role_arn",
        "identity.job_roles.destroy.role",
        "identity.job_roles.action",
        "identity.named_roles.apply",
        "identity.named_roles.fix.kinds[0]",
        "identity.named_roles.fix.env_types[0]",
        "identity.named_roles.fix.requires[0]",
        "identity.named_roles.fix.max",
        "identity.job_roles.plan.gcp_service_account",
        "identity.job_roles.apply.aws_role_arn",
        "identity.job_roles.apply.azure_client_id",
        "identity.job_roles.plan.aws_role_arn",
        "identity.named_roles.cloudless.azure_client_id",
        "identity.named_roles.empty",
    ];
    assert_eq!(faults, expected);
}
