//! People sign in with `canyon login` at an independent OpenID provider, by a browser and by a code, and have the roles
//! of their groups.

use crate::approvals::awaited;
use crate::harness::deployments::{assert_succeeded, request};
use crate::harness::module::inline;
use crate::harness::programs;
use crate::harness::server::Server;
use crate::harness::site::{ENV, PROJECT, Site};
use crate::service_accounts::{Provider, serve};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn browser_script() -> String {
    format!("{}/e2e/people/browser.py", env!("CARGO_MANIFEST_DIR"))
}

/// A person with a machine of its own: a folder for settings, and a browser.
struct Person {
    home: PathBuf,
    authority: PathBuf,
    url: String,
    org: String,
}

impl Person {
    fn new(server: &Server, provider: &Provider, login: &str) -> Self {
        let home = server.path(&format!("home-of-{login}"));
        fs::create_dir_all(&home).unwrap();
        let authority = provider.authority();
        let script = format!(
            "exec {} -B {} {} {login} \"$1\" > {home}/page 2>&1\n",
            programs::given("CANYON_TEST_AWS_PYTHON").display(),
            browser_script(),
            authority.display(),
            home = home.display(),
        );
        let browser = home.join("browser");
        programs::script(&browser, &script);
        Self { home, authority, url: server.url(), org: server.org().to_owned() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(programs::built().join("canyon"));
        command
            .args(arguments)
            .env_clear()
            .env("HOME", &self.home)
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("BROWSER", self.home.join("browser"))
            .env("SSL_CERT_FILE", &self.authority)
            .stdin(Stdio::null());
        command
    }

    fn canyon(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The result of a command that succeeds, as JSON.
    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.canyon(&[arguments, &["--out", "json"]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn login(&self, more: &[&str]) -> Output {
        let place = ["login", "--api-url", &self.url, "--org", &self.org];
        self.canyon(&[&place, more].concat())
    }

    fn signed_in(self) -> Self {
        let output = self.login(&["--browser"]);
        let page = fs::read_to_string(self.home.join("page"));
        assert!(output.status.success(), "{} {page:?}", text(&output.stderr));
        self
    }

    fn settings(&self) -> PathBuf {
        self.home.join(".config/canyon/config.yaml")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The organization's identity provider, as its administrator creates it.
fn company(server: &Server, provider: &Provider) {
    let body = json!({
        "issuer": provider.url,
        "client_id": "canyon",
        "scopes": ["openid", "email", "groups"],
        "rules": [
            { "group": "platform", "role": "admin" },
            { "group": "auditors", "role": "viewer" },
            { "group": "shop", "role": "deployer", "project_id": "shop" },
        ],
    });
    fs::write(server.path("company.yaml"), body.to_string()).unwrap();
    server.canyon(&["create", "identity-provider", "company", "--set-yaml=@company.yaml"]).done();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_people_sign_in_by_a_browser_and_each_has_the_roles_of_its_groups() {
    let provider = Provider::start();
    let server = serve(&provider).await;
    company(&server, &provider);
    let ada = Person::new(&server, &provider, "ada").signed_in();
    let grace = Person::new(&server, &provider, "grace").signed_in();
    let who = ada.json(&["whoami"]);
    let told = ["kind", "name", "identity_provider", "role"].map(|name| who[name].clone());
    assert_eq!(told, [json!("person"), json!("ada@example.com"), json!("company"), json!("admin")]);
    ada.json(&["create", "project", "shop"]);
    let refused = grace.canyon(&["create", "project", "other"]);
    assert_eq!(refused.status.code(), Some(8), "{}", text(&refused.stderr));
    assert_eq!(grace.json(&["list", "projects", "--jq", "map(.id)"]), json!(["shop"]));
    let linus = Person::new(&server, &provider, "linus").signed_in();
    assert_eq!(linus.json(&["whoami"])["scoped_roles"][0]["project_id"], "shop");
    let eve = Person::new(&server, &provider, "eve");
    let refused = eve.login(&["--browser"]);
    assert_eq!(refused.status.code(), Some(4));
    assert!(text(&refused.stderr).contains("no rule of identity provider `company`"));
    // A server that is reached at another address might be another one, which would get a token for this one.
    let elsewhere = ada.url.replace("127.0.0.1", "localhost");
    let login = ["login", "--api-url", &elsewhere, "--org", &ada.org, "--browser"];
    let refused = ada.canyon(&login);
    assert_eq!(refused.status.code(), Some(4));
    assert!(text(&refused.stderr).contains("--shared-client"), "{}", text(&refused.stderr));
    assert!(ada.canyon(&[&login[..], &["--shared-client"]].concat()).status.success());
    let audit = ada.json(&["list", "audit", "--action", "project.create"]);
    assert_eq!(audit[0]["by_name"], "ada@example.com");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_signs_in_by_a_code_on_another_machine() {
    use std::io::{BufRead as _, BufReader};
    let provider = Provider::start();
    let server = serve(&provider).await;
    company(&server, &provider);
    let ada = Person::new(&server, &provider, "ada");
    let place = ["login", "--api-url", &ada.url, "--org", &ada.org, "--device"];
    let mut login = Running(ada.command(&place).stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(login.0.stderr.take().unwrap()).lines();
    let told = lines.next().unwrap().unwrap();
    let url = told.split_whitespace().find(|word| word.starts_with("https://")).unwrap();
    let browser = Command::new(ada.home.join("browser")).arg(url).status().unwrap();
    let page = || fs::read_to_string(ada.home.join("page"));
    assert!(browser.success(), "{told} {:?}", page());
    let rest: Vec<_> = lines.map_while(Result::ok).collect();
    assert!(login.0.wait().unwrap().success(), "{told} {rest:?} {:?}", page());
    assert_eq!(ada.json(&["whoami"])["name"], "ada@example.com");
}

/// Canyon's token in the settings.
fn token_of(settings: &Path) -> String {
    let stored = fs::read_to_string(settings).unwrap();
    let token = stored[stored.find("cya_").unwrap()..]
        .split(|char: char| !char.is_ascii_alphanumeric() && char != '_' && char != '-');
    token.into_iter().next().unwrap().to_owned()
}

/// Notes that the stored token ends then, so that no test waits for an hour.
fn let_the_token_end(settings: &Path, at: jiff::Timestamp) {
    let stored = fs::read_to_string(settings).unwrap();
    let (before, rest) = stored.split_once("token_expires_at: ").unwrap();
    let (_, after) = rest.split_once('\n').unwrap();
    fs::write(settings, format!("{before}token_expires_at: {at}\n{after}")).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_is_renewed_once_by_many_commands_and_ends_with_logout() {
    let provider = Provider::start();
    let mut server = serve(&provider).await;
    company(&server, &provider);
    let ada = Person::new(&server, &provider, "ada").signed_in();
    let mode = fs::metadata(ada.settings()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let first = token_of(&ada.settings());
    let past = jiff::Timestamp::UNIX_EPOCH;
    let_the_token_end(&ada.settings(), past);
    // The issuer accepts a renewing token once, and ends the whole sign-in when it comes again.
    let commands: Vec<_> = (0..6)
        .map(|_| {
            let mut command = ada.command(&["whoami"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for command in commands {
        let output = command.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    assert_ne!(token_of(&ada.settings()), first);
    let_the_token_end(&ada.settings(), past);
    ada.json(&["whoami"]);
    let renewals = ada.json(&["list", "audit", "--action", "person.sign_in"]);
    assert_eq!(renewals.as_array().unwrap().len(), 3, "{renewals}");
    // A renewal that the issuer has answered and Canyon has not is no end.
    let_the_token_end(&ada.settings(), past);
    server.kill();
    assert_eq!(ada.canyon(&["whoami"]).status.code(), Some(3));
    server.restart().await;
    ada.json(&["whoami"]);
    // A change of the provider ends the token, and not the sign-in.
    let change = ["update", "identity-provider", "company", "--set=description=all"];
    server.canyon(&change).done();
    let refused = ada.canyon(&["whoami"]);
    assert!(text(&refused.stderr).contains("run the command again"), "{}", text(&refused.stderr));
    ada.json(&["whoami"]);
    let token = token_of(&ada.settings());
    let logout = ada.canyon(&["logout"]);
    assert!(logout.status.success(), "{}", text(&logout.stderr));
    assert!(!text(&logout.stderr).contains("warning"), "{}", text(&logout.stderr));
    let left = fs::read_to_string(ada.settings()).unwrap();
    assert!(!left.contains("refresh_token") && !left.contains("cya_"), "{left}");
    let after = ada.command(&["whoami"]).env("CANYON_TOKEN", token).output();
    assert_eq!(after.unwrap().status.code(), Some(4), "Canyon revoked it too");
    // The context is still there: a person needs neither address nor organization to sign in again.
    let again = ada.canyon(&["login", "--browser"]);
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert_eq!(ada.json(&["whoami"])["name"], "ada@example.com");
}

/// The renewing token in the settings.
fn renewing_token_of(settings: &Path) -> String {
    let stored = fs::read_to_string(settings).unwrap();
    let (_, rest) = stored.split_once("refresh_token: ").unwrap();
    rest.lines().next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_that_the_issuer_renews_for_another_person_ends() {
    let provider = Provider::start();
    let server = serve(&provider).await;
    company(&server, &provider);
    let [ada, grace] = ["ada", "grace"].map(|login| Person::new(&server, &provider, login));
    let (ada, grace) = (ada.signed_in(), grace.signed_in());
    let stored = fs::read_to_string(ada.settings()).unwrap();
    let [of_ada, of_grace] = [&ada, &grace].map(|person| renewing_token_of(&person.settings()));
    fs::write(ada.settings(), stored.replace(&of_ada, &of_grace)).unwrap();
    let_the_token_end(&ada.settings(), jiff::Timestamp::UNIX_EPOCH);
    let refused = ada.canyon(&["whoami"]);
    let words = text(&refused.stderr);
    assert!(words.contains("was renewed for another person"), "{words}");
    assert!(words.contains("canyon login --context"), "{words}");
    let left = fs::read_to_string(ada.settings()).unwrap();
    assert!(!left.contains("refresh_token") && !left.contains("cya_"), "{left}");
    // The issuer ended what the renewal had left.
    let_the_token_end(&grace.settings(), jiff::Timestamp::UNIX_EPOCH);
    assert!(!grace.canyon(&["whoami"]).status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_runs_longer_than_its_token_is_good_goes_on_with_a_renewed_one() {
    use std::io::{BufRead as _, BufReader};
    let provider = Provider::start();
    let server = serve(&provider).await;
    company(&server, &provider);
    let ada = Person::new(&server, &provider, "ada").signed_in();
    let first = token_of(&ada.settings());
    // A token is renewed a minute before its end.
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(63);
    let_the_token_end(&ada.settings(), soon);
    let follow = ["list", "audit", "--follow", "--action", "person.sign_in", "--out", "json"];
    let mut follow = Running(ada.command(&follow).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(follow.0.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["by_name"], "ada@example.com", "the renewal itself");
    let url = format!("{}/orgs/{}/oauth/revoke", server.url(), server.org());
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = http.post(url).header("content-type", "application/x-www-form-urlencoded");
    let revoked = request.body(format!("token={first}")).send().await.unwrap();
    assert_eq!(revoked.status().as_u16(), 200);
    let _grace = Person::new(&server, &provider, "grace").signed_in();
    assert_eq!(next()["by_name"], "grace@example.com");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_of_a_group_approves_a_plan_and_one_outside_of_it_may_not() {
    let provider = Provider::start();
    let site = Site::on(serve(&provider).await, &json!({})).await;
    let server = &site.server;
    company(server, &provider);
    let update = |group: &str| {
        let group = format!("--set=approval.approvers.groups[0]={group}");
        let rule = ["update", "environment-type", "development", "--set=approval.required=always"];
        server.canyon(&[&rule[..], &[group.as_str()]].concat())
    };
    let unknown = update("company/strangers");
    assert_ne!(unknown.code, 0);
    assert!(unknown.stderr.contains("no rule for the group"), "{}", unknown.stderr);
    update("company/auditors").done();
    let code = "output \"x\" { value = 1 }".to_owned();
    let id = site.accept(&request(ENV, Some(inline(code)))).await;
    let digest = awaited(&site, &id).await.plan.unwrap().digest;
    let [ada, grace] = ["ada", "grace"].map(|login| Person::new(server, &provider, login));
    let (ada, grace) = (ada.signed_in(), grace.signed_in());
    assert_eq!(grace.json(&["whoami"])["groups"], json!(["company/auditors"]));
    let mine = ["list", "approvals", "--mine", "--project", PROJECT, "--jq", "map(.id)"];
    assert_eq!((ada.json(&mine), grace.json(&mine)), (json!([]), json!([id])));
    let approve = ["approve", &id, "--plan-digest", &digest];
    let refused = ada.canyon(&approve);
    let words = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(8), "{words}");
    assert!(words.contains("the group `company/auditors`"), "{words}");
    assert!(words.contains("canyon whoami"), "{words}");
    let approved = grace.canyon(&approve);
    assert!(approved.status.success(), "{}", text(&approved.stderr));
    assert_succeeded(&site.end(&id).await);
}

/// A command that runs until it is dropped.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
