//! Pulling images: a real engine, and the cluster's registry behind a gate that requires
//! authentication.

use crate::bed::{Facts, base64};
use crate::behaviour::{new_job, until, until_gone};
use crate::docker_bed::{Host, name_of};
use canyon_dispatch::docker::DockerSettings;
use canyon_dispatch::{
    CheckReports, DispatchError, Dispatcher, Launch, OnFailure, Started, StopMode,
};
use canyon_domain::deadline::Observation;
use canyon_domain::failure::FailureClass;
use canyon_domain::runner_check::{CheckStep, StepResult};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use uuid::Uuid;

const PASSWORD: &str = "hunter2";
/// How many bytes of an answer pass the gate while it holds answers back.
const SHOWN: usize = 1024 * 1024;

/// A proxy in front of the registry.
struct Gate {
    address: SocketAddr,
    holds: Arc<AtomicBool>,
    /// The `Authorization` headers that it received.
    shown: Arc<Mutex<Vec<String>>>,
}

impl Gate {
    /// A gate that accepts `robot` with the password.
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (holds, shown) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Vec<_>>>::default());
        let (held, noted) = (holds.clone(), shown.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (held, noted) = (held.clone(), noted.clone());
                std::thread::spawn(move || pass(client, &held, &noted));
            }
        });
        Self { address, holds, shown }
    }

    fn image(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }
}

/// Serves one request on one connection.
fn pass(mut client: TcpStream, held: &AtomicBool, noted: &Mutex<Vec<String>>) -> Option<()> {
    let mut lines = BufReader::new(client.try_clone().ok()?).lines().map_while(Result::ok);
    let first = lines.next()?;
    let headers: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let authorization = headers.iter().find_map(|line| line.strip_prefix("Authorization: "));
    noted.lock().unwrap().extend(authorization.map(str::to_owned));
    let expected = format!("Basic {}", base64(format!("robot:{PASSWORD}").as_bytes()));
    if authorization != Some(&expected) {
        let body = r#"{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}"#;
        let answer = format!(
            "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"gate\"\r\n\
             Docker-Distribution-Api-Version: registry/2.0\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        return client.write_all(answer.as_bytes()).ok();
    }
    let mut registry = TcpStream::connect(Facts::of_cluster().get("REGISTRY")).ok()?;
    let is_own = |line: &&String| !line.to_lowercase().starts_with("connection:");
    let kept: Vec<&str> = headers.iter().filter(is_own).map(String::as_str).collect();
    let request = format!("{first}\r\nConnection: close\r\n{}\r\n\r\n", kept.join("\r\n"));
    registry.write_all(request.as_bytes()).ok()?;
    let (mut passed, mut buffer) = (0, [0; 16 * 1024]);
    while let Ok(read @ 1..) = registry.read(&mut buffer) {
        while passed > SHOWN && held.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(20));
        }
        client.write_all(&buffer[..read]).ok()?;
        passed += read;
    }
    Some(())
}

/// An image of `act.c` and 3 MiB of random data, which exists only in the registry.
fn fresh_image(host: &Host) -> String {
    let registry = Facts::of_cluster().get("REGISTRY");
    let name = format!("canyon-test/{}:1", Uuid::now_v7().simple());
    let script = r#"
        set -eu
        folder=$(mktemp -d)
        trap 'rm -rf "$folder"' EXIT
        container=$(docker create canyon.test/act:1)
        docker cp "$container:/act" "$folder/act"
        docker rm "$container"
        head -c 3145728 /dev/urandom >"$folder/noise"
        tar -C "$folder" -c act noise | docker import --change 'ENTRYPOINT ["/act"]' --change 'USER 65532:65532' - "$1"
        docker push --quiet "$1"
        docker rmi "$1"
    "#;
    let made = Command::new("sh")
        .args(["-c", script, "sh", &format!("{registry}/{name}")])
        .env("DOCKER_HOST", &host.address)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    name
}

fn pulling(host: &Host, image: String, password: Option<&str>) -> DockerSettings {
    let mut settings = host.settings();
    settings.image = Some(image);
    settings.local_image = false;
    settings.registry_username = password.map(|_| "robot".to_owned());
    settings.registry_password = password.map(|password| password.to_owned().into());
    settings
}

async fn refusal(host: &Host, settings: DockerSettings, job: &Value) -> DispatchError {
    let kind = host.dispatcher(settings, job);
    let error = final_error(&*kind, &host.acting(new_job(), "writes")).await;
    assert!(!error.to_string().contains(PASSWORD));
    error
}

/// The error of a start that is retried as long as it may be.
async fn final_error(kind: &dyn Dispatcher, launch: &Launch) -> DispatchError {
    let mut error = None;
    until("the pull has its answer", async || match kind.start(launch).await {
        Err(later) if matches!(later.on_failure, OnFailure::RetryAfter(_)) => false,
        answer => {
            error = Some(answer.unwrap_err());
            true
        }
    })
    .await;
    error.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_pull_is_waited_for_and_shows_its_progress() {
    let host = Host::new().await;
    let gate = Gate::new();
    let image = gate.image(&fresh_image(&host));
    gate.holds.store(true, Ordering::SeqCst);
    let kind = host.dispatcher(pulling(&host, image.clone(), Some(PASSWORD)), &json!({}));
    let [launch, stopped] = [(); 2].map(|()| host.acting(new_job(), "until-asked"));
    until("the pull is under way", async || {
        let error = kind.start(&launch).await.unwrap_err();
        assert!(matches!(error.on_failure, OnFailure::RetryAfter(_)), "{error:?}");
        assert!(error.to_string().contains(&image), "{error}");
        error.to_string().contains(" of 3 MiB")
    })
    .await;
    let Observation::Waiting(progress) = kind.observe(&launch.job).await else { panic!() };
    assert!(progress.contains(" of 3 MiB"), "{progress}");
    // A job that is stopped meanwhile no longer waits.
    assert!(kind.start(&stopped).await.is_err());
    assert!(matches!(kind.observe(&stopped.job).await, Observation::Waiting(_)));
    kind.stop(&stopped.job, StopMode::Graceful).await.unwrap();
    assert_eq!(kind.observe(&stopped.job).await, Observation::Gone(None));

    gate.holds.store(false, Ordering::SeqCst);
    until("the image is there", async || {
        matches!(kind.start(&launch).await, Ok(Started::Now(_) | Started::Already(_)))
    })
    .await;
    until("it runs", async || host.notes.count(&name_of(&launch.job), "started") == 1).await;
    kind.stop(&launch.job, StopMode::Kill).await.unwrap();
    until_gone(&*kind, &launch.job).await;
    kind.forget(&launch.job).await;
    host.docker(&["rmi", &image]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_a_registry_names_what_to_change() {
    let host = Host::new().await;
    let gate = Gate::new();
    let name = fresh_image(&host);
    let cases = [
        (gate.image(&name), None, "set `registry_username` and `registry_password`"),
        (gate.image(&name), Some("wrong"), "check `registry_username` and `registry_password`"),
        (gate.image("canyon-test/absent:1"), Some(PASSWORD), "check `image`"),
        (gate.image(&name.replace(":1", ":2")), Some(PASSWORD), "no such tag"),
        ("127.0.0.1:1/UPPER:1".to_owned(), None, "not the name of an image"),
    ];
    for (image, password, expected) in cases {
        let settings = pulling(&host, image, password);
        let error = refusal(&host, settings.clone(), &json!({})).await;
        assert_eq!(
            (error.failure.class, error.on_failure),
            (FailureClass::ImagePull, OnFailure::EndAttempt)
        );
        assert!(error.to_string().contains(expected), "{expected}: {error}");
        // A check finds the same without a pull.
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        host.dispatcher(settings, &json!({})).check(&CheckReports::new(sender)).await;
        let mut last = None;
        while let Some(report) = receiver.recv().await {
            last = Some(report);
        }
        let last = last.unwrap();
        assert_eq!((last.step, last.result), (CheckStep::Image, StepResult::Failed), "{last:?}");
        // The engine itself refuses an invalid name, before it asks a registry.
        let is_name = !expected.starts_with("not the name");
        let expected = if is_name { expected } else { "invalid reference" };
        assert!(last.message.contains(expected), "{expected}: {last:?}");
        assert!(!last.message.contains(PASSWORD));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_does_not_answer_is_retried_for_some_time() {
    let host = Host::new().await;
    let kind = host.dispatcher(pulling(&host, "127.0.0.1:1/absent:1".to_owned(), None), &json!({}));
    let mut launch = host.acting(new_job(), "writes");
    let error = kind.start(&launch).await.unwrap_err();
    assert!(matches!(error.on_failure, OnFailure::RetryAfter(_)), "{error:?}");
    launch.launched_at -= SignedDuration::from_mins(1);
    let error = final_error(&*kind, &launch).await;
    assert_eq!(
        (error.failure.class, error.on_failure),
        (FailureClass::ImagePull, OnFailure::EndAttempt)
    );
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_password_is_sent_only_to_the_hosts_own_registry() {
    let host = Host::new().await;
    let (own, other) = (Gate::new(), Gate::new());
    let settings = pulling(&host, own.image("canyon-test/own:1"), Some(PASSWORD));
    // The author of the runner names an image of their own registry.
    let job = json!({ "image": other.image("canyon-test/absent:1") });
    let error = refusal(&host, settings.clone(), &job).await;
    assert_eq!(error.failure.class, FailureClass::ImagePull);
    assert_eq!(*other.shown.lock().unwrap(), Vec::<String>::new());
    refusal(&host, settings, &json!({})).await;
    assert!(!own.shown.lock().unwrap().is_empty());
}
