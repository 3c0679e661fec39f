use super::Served;
use crate::settings::tests::{Variables, read, with};

/// The organizations of these settings, each with its runner and its account.
fn served(variables: &Variables) -> Result<Vec<String>, String> {
    let settings = read(&with(variables))?;
    let name = |id: Option<String>| id.unwrap_or_else(|| "-".to_owned());
    let shown = |served: &Served| {
        let (runner, account) = (served.runner.clone(), served.account.clone());
        format!(
            "{} {} {}",
            served.org,
            name(runner.map(String::from)),
            name(account.map(String::from))
        )
    };
    Ok(settings.served.iter().map(shown).collect())
}

#[test]
fn an_agent_serves_the_organizations_that_its_path_names() {
    let docker = ("CANYON_JOB_DISPATCHER_TYPE", "docker");
    let several = ("CANYON_RUNNER_PATH", "acme/far, beta");
    assert_eq!(served(&vec![]), Ok(vec!["acme far -".to_owned()]));
    let expected = ["acme far -", "beta - -"].map(str::to_owned).to_vec();
    assert_eq!(served(&vec![docker, several]), Ok(expected));
    let accounts = vec![
        docker,
        several,
        ("CANYON_SERVICE_ACCOUNT_PATH", "beta/robots,acme/agents"),
        ("CANYON_IDENTITY_TOKEN_FILE", "/mine"),
    ];
    let expected = ["acme far agents", "beta - robots"].map(str::to_owned).to_vec();
    assert_eq!(served(&accounts), Ok(expected));
    let own = vec![("CANYON_RUNNER_PATH", "group/far"), ("CANYON_ORG", "acme")];
    assert_eq!(served(&own), Ok(vec!["acme far -".to_owned()]));
}

#[test]
fn what_organizations_cannot_share_is_refused_at_once() {
    let several = ("CANYON_RUNNER_PATH", "acme/far,beta/far");
    let refused = |more: Variables| served(&more).unwrap_err();
    insta::assert_snapshot!(refused(vec![
        several,
        ("CANYON_TOKEN", "s3cr3t"),
        ("CANYON_AGENT_SINGLE", "yes"),
    ]), @r"
    CANYON_AGENT_SINGLE is for one job of one organization, but CANYON_RUNNER_PATH names several
    CANYON_JOB_DISPATCHER_TYPE is `local`, but CANYON_RUNNER_PATH names several organizations: their jobs would be processes of one user, and could read each other's secrets
    CANYON_TOKEN is of one organization, but CANYON_RUNNER_PATH names several: use the agent's key, or a service account of each
    ");
    let docker = ("CANYON_JOB_DISPATCHER_TYPE", "docker");
    insta::assert_snapshot!(refused(vec![
        docker,
        ("CANYON_RUNNER_PATH", "acme/far,beta,,acme/near"),
        ("CANYON_SERVICE_ACCOUNT_PATH", "acme/agents,gamma/agents,beta"),
        ("CANYON_IDENTITY_TOKEN_FILE", "/mine"),
    ]), @r"
    CANYON_RUNNER_PATH is not ORG/NAME
    CANYON_RUNNER_PATH names organization `acme` twice; an agent has one session in each
    CANYON_SERVICE_ACCOUNT_PATH is not ORG/ACCOUNT
    CANYON_SERVICE_ACCOUNT_PATH names another organization than CANYON_RUNNER_PATH
    ");
    insta::assert_snapshot!(refused(vec![
        docker,
        several,
        ("CANYON_SERVICE_ACCOUNT_PATH", "acme/agents"),
        ("CANYON_IDENTITY_TOKEN_FILE", "/mine"),
    ]), @"CANYON_SERVICE_ACCOUNT_PATH names no account of organization `beta`");
    insta::assert_snapshot!(refused(vec![docker, several, ("CANYON_ORG", "acme")]), @"CANYON_RUNNER_PATH names several runners, but CANYON_ORG names one organization");
    let many: Vec<_> = (0..17).map(|number| format!("org-{number}")).collect();
    insta::assert_snapshot!(refused(vec![docker, ("CANYON_RUNNER_PATH", many.join(",").leak())]), @"CANYON_RUNNER_PATH names more than 16 organizations");
}
