//! docs/install-aws.md from the first step to the removal, exactly as written, with the real `sam`, `aws` and `canyon`,
//! in an AWS that moto plays, and with only the rights of infra/aws/installer-policy.json. The page says where these
//! rights do not suffice.

use crate::harness::handbook::Handbook;
use crate::harness::server::Server;
use crate::installer;
use crate::stack::declared;
use canyon_cloud::cloud::FUNCTIONS;
use canyon_cloud::front::{Account, Front, Policy, Upstreams};
use canyon_cloud::parts::cloudformation::CloudFormation;
use canyon_cloud::parts::moto::Moto;
use canyon_cloud::region::{ACCOUNT, OPERATOR_TOKEN, REGION};
use serde_json::{Value, json};
use std::fs;

/// An empty account, and the installer's folder.
struct Installer {
    _moto: Moto,
    cloudformation: CloudFormation,
    endpoint: String,
    front: Front,
    handbook: Handbook,
}

impl Installer {
    async fn new(policy: Policy) -> Self {
        let moto = Moto::start().await;
        let cloudformation = CloudFormation::start(moto.url()).await;
        let account =
            Account { id: ACCOUNT.to_owned(), region: REGION.to_owned(), ..Account::default() };
        let all = cloudformation.url().to_owned();
        let upstreams =
            Upstreams { dynamodb: all.clone(), database: None, s3: all.clone(), other: all };
        let front = Front::new(account, upstreams, 1);
        let endpoint = front.open("installer", policy).await.unwrap();
        let handbook = Handbook::new("install-aws.md", &endpoint);
        Self { _moto: moto, cloudformation, endpoint, front, handbook }
    }

    /// The output of `aws`, run by an administrator, as JSON.
    fn aws(&self, command: &str) -> Value {
        let administrator = self.cloudformation.url();
        let command = format!("aws --endpoint-url {administrator} --output json {command}");
        let said = self.handbook.run(&command, "");
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{command}: {error}: {said}"))
    }

    fn output(&self, name: &str) -> String {
        let stacks = self.aws("cloudformation describe-stacks --stack-name canyon");
        let outputs = stacks["Stacks"][0]["Outputs"].as_array().unwrap();
        let found = outputs.iter().find(|output| output["OutputKey"] == name);
        found.unwrap_or_else(|| panic!("{outputs:?}"))["OutputValue"].as_str().unwrap().to_owned()
    }
}

/// The answers to `sam deploy --guided`: the proposed name, region and parameters, its seven questions (changes, roles,
/// rollback, three about the file), and the confirmation.
fn proposed(handbook: &Handbook) -> String {
    let template = fs::read_to_string(handbook.file("infra/aws/template.yaml")).unwrap();
    let (_, parameters) = template.split_once("\nParameters:\n").unwrap();
    let (parameters, _) = parameters.split_once("\nConditions:\n").unwrap();
    let names = parameters.lines().filter(|line| {
        line.starts_with("  ") && line.as_bytes()[2].is_ascii_alphabetic() && line.ends_with(':')
    });
    format!("{}y\n", "\n".repeat(2 + names.count() + 6))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_follows_the_page_from_the_first_step_to_its_removal() {
    let (mut account, server) =
        tokio::join!(Installer::new(installer::policy(|text| text)), Server::start());
    let handbook = &mut account.handbook;
    handbook.follow("### 1. Build the functions", "");
    let said = handbook.follow("### 2. Make the operator's token", "");
    let hash = said.split_whitespace().find(|word| word.len() == 43 && !word.contains("cya_"));
    handbook.replace("OperatorTokenHash=HASH", format!("OperatorTokenHash={}", hash.unwrap()));
    let said = handbook.follow("### 3. Deploy", &proposed(handbook));
    assert!(said.contains("is a valid SAM Template"), "{said}");
    assert!(said.contains("Build Succeeded"), "{said}");
    assert!(said.contains("Successfully created/updated stack - canyon"), "{said}");
    for function in FUNCTIONS {
        let command =
            format!("lambda get-function-configuration --function-name canyon-{function}");
        assert_eq!(account.aws(&command)["Runtime"], "provided.al2023", "{function}");
    }
    let topic = account.output("AlarmTopicArn");
    account.handbook.replace("ALARM_TOPIC_ARN", topic);
    account.handbook.follow("### 4. Subscribe to the alarms", "");

    first_deployment(&mut account.handbook, &server);

    let said = account.handbook.follow("## Upgrade", "y\n");
    assert!(said.contains("Successfully created/updated stack"), "{said}");
    remove_and_install_again(&mut account);
    assert!(account.front.denied().is_empty(), "{:#?}", account.front.denied());
}

/// An administrator deletes what the stack leaves behind; then another stack can have the same name.
fn remove_and_install_again(account: &mut Installer) {
    for (name, output) in [
        ("JOB_SIGNING_KEY_ARN", "JobSigningKeyArn"),
        ("SIGNING_KEY_ARN", "SigningKeyArn"),
        ("MASTER_KEY_ARN", "MasterKeyArn"),
    ] {
        // moto finds a key that is scheduled for deletion by its id alone.
        let arn = account.output(output);
        account.handbook.replace(name, arn.rsplit('/').next().unwrap());
    }
    account.handbook.replace("canyon-ACCOUNT-REGION", format!("canyon-{ACCOUNT}-{REGION}"));
    let [remove, forget] = &account.handbook.blocks("## Uninstall")[..] else {
        panic!("a block that deletes the stack, and one that deletes what it leaves")
    };
    let said = account.handbook.run(remove, "y\ny\n");
    assert!(said.contains("Deleted successfully"), "{said}");
    let left = account.aws("dynamodb describe-table --table-name canyon");
    assert_eq!(left["Table"]["TableName"], "canyon");
    let groups = account.aws("logs describe-log-groups --log-group-name-prefix /aws/lambda/canyon");
    assert_eq!(groups["logGroups"].as_array().unwrap().len(), FUNCTIONS.len(), "{groups}");

    let administrator = account.cloudformation.url().to_owned();
    account.handbook.set("AWS_ENDPOINT_URL", &administrator);
    leave_versions_and_a_restored_table(account);
    account.handbook.run(forget, "");
    assert_eq!(account.aws("dynamodb list-tables")["TableNames"], json!([]));
    assert_eq!(
        account.aws("s3api list-buckets")["Buckets"].to_string().matches("canyon-").count(),
        0
    );
    let installer = account.endpoint.clone();
    account.handbook.set("AWS_ENDPOINT_URL", &installer);
    let said = account.handbook.run("cd infra/aws; sam deploy --no-confirm-changeset", "");
    assert!(said.contains("Successfully created/updated stack"), "{said}");
}

/// Creates what an installation with `BucketVersions` has after some time, and what a restore made.
fn leave_versions_and_a_restored_table(account: &mut Installer) {
    let bucket = format!("--bucket canyon-{ACCOUNT}-{REGION}");
    for commands in [
        format!("put-bucket-versioning {bucket} --versioning-configuration Status=Enabled"),
        format!("put-object {bucket} --key log"),
        format!("put-object {bucket} --key log"),
        format!("delete-object {bucket} --key log"),
    ] {
        account.handbook.run(&format!("aws s3api {commands}"), "");
    }
    account.handbook.run(
        "aws dynamodb create-table --table-name canyon-restored --billing-mode PAY_PER_REQUEST \
         --attribute-definitions AttributeName=pk,AttributeType=S \
         --key-schema AttributeName=pk,KeyType=HASH --deletion-protection-enabled",
        "",
    );
}

/// Steps 5 and 6, on functions that run beside the stack. The runner's jobs run on this machine instead of on Fargate.
fn first_deployment(handbook: &mut Handbook, server: &Server) {
    handbook.set("OPERATOR_TOKEN", OPERATOR_TOKEN);
    handbook.set("CANYON_API_URL", &server.url());
    handbook.replace("https://API_URL", server.url());
    handbook.follow("### 5. Make the first organization", "");
    let [files, commands] = &handbook.blocks("### 6. The first deployment")[..] else {
        panic!("a block that copies the runner's definition, and one with what follows")
    };
    handbook.run(files, "");
    let example = "canyon create runner example --set-yaml=@runner.yaml";
    handbook.run(&format!(". ./canyon-admin.env; {example}"), "");
    let local = format!(
        "runner_configuration: {{ type: local }}\nstate_storage_configuration: {{ type: local, path: {} }}\n",
        handbook.file("states").display()
    );
    fs::write(handbook.file("runner.yaml"), local).unwrap();
    let said = handbook.run(commands, "");
    assert!(said.contains("succeeded"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_restored_under_another_name_and_adopted_by_the_stack() {
    let mut account = Installer::new(installer::policy_with_restore()).await;
    account.handbook.follow("### 1. Build the functions", "");
    let hash = "OperatorTokenHash=ZQM9aRkfk5A8vw94a3aMsVANNJfzjhnTSPMxJDH-0KE";
    account.handbook.replace("OperatorTokenHash=HASH", hash);
    let answers = proposed(&account.handbook);
    account.handbook.follow("### 3. Deploy", &answers);
    let put = "dynamodb put-item --table-name canyon --item";
    let administrator = account.cloudformation.url().to_owned();
    account.handbook.set("AWS_ENDPOINT_URL", &administrator);
    account
        .handbook
        .run(&format!("aws {put} '{{\"pk\": {{\"S\": \"kept\"}}, \"sk\": {{\"S\": \"O\"}}}}'"), "");
    let installer = account.endpoint.clone();
    account.handbook.set("AWS_ENDPOINT_URL", &installer);
    account.handbook.follow("## Upgrade", "y\n");

    account.handbook.follow("### 1. Stop the functions", "");
    // moto does not store a function's concurrency.
    let stopped = &declared(&["ApiConcurrency=0"])["resources"]["ApiFunction"]["Properties"];
    assert_eq!(stopped["ReservedConcurrentExecutions"], 0, "it takes no requests");
    let now = account.handbook.run("date --utc +%Y-%m-%dT%H:%M:%SZ", "");
    account.handbook.replace("RESTORE_TIME", now.trim());
    account.handbook.follow("### 2. Restore the table", "");
    account.handbook.follow("### 3. Give it what a restore leaves out", "");
    account.handbook.follow("### 4. Let the stack use it", "");

    assert!(account.front.denied().is_empty(), "{:#?}", account.front.denied());
    assert_eq!(account.output("TableName"), "canyon-restored");
    for function in ["api", "launcher", "sweep"] {
        let of = format!("lambda get-function-configuration --function-name canyon-{function}");
        let variables = account.aws(&of)["Environment"]["Variables"].clone();
        assert_eq!(variables["CANYON_TABLE"], "canyon-restored", "{function}");
        assert_eq!(variables["CANYON_MASTER_KEY_TABLE"], "canyon", "{function}");
    }
    let table =
        account.aws("dynamodb describe-table --table-name canyon-restored")["Table"].clone();
    let mappings = account.aws("lambda list-event-source-mappings");
    let sources: Vec<_> = mappings["EventSourceMappings"].as_array().unwrap().iter().collect();
    assert_eq!(sources.len(), 1, "{mappings}");
    assert_eq!(sources[0]["EventSourceArn"], table["LatestStreamArn"]);
    assert_eq!(table["DeletionProtectionEnabled"], true);
    assert_eq!(table["StreamSpecification"]["StreamViewType"], "NEW_IMAGE");
    let made = account.aws("dynamodb describe-table --table-name canyon")["Table"].clone();
    for kept in ["KeySchema", "AttributeDefinitions"] {
        assert_eq!(table[kept], made[kept], "{kept}");
    }
    account.handbook.set("AWS_ENDPOINT_URL", &administrator);
    let restored = account.aws("dynamodb scan --table-name canyon-restored");
    assert_eq!(restored["Items"][0]["pk"]["S"], "kept");
}

#[test]
fn files_that_sam_writes_are_ignored_by_git_and_tracked_files_are_not() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (file, ignored) in [
        ("infra/aws/samconfig.toml", true),
        ("infra/aws/.aws-sam/build/template.yaml", true),
        ("infra/aws/samconfig.example.toml", false),
    ] {
        let mut git = std::process::Command::new("git");
        let asked = git.current_dir(root).args(["check-ignore", "--quiet", "--no-index", file]);
        assert_eq!(asked.status().unwrap().success(), ignored, "{file}");
    }
}
