//! The KMS of this test binary, and one with scripted answers.

use aws_sdk_kms::Client;
use aws_sdk_kms::config::{BehaviorVersion, Credentials, Region, SharedHttpClient};
use aws_sdk_kms::types::{KeySpec, KeyUsageType};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use std::fmt;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant};

fn client(endpoint: String, http: SharedHttpClient) -> Client {
    let config = aws_sdk_kms::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("eu-west-1"))
        .endpoint_url(endpoint)
        .credentials_provider(Credentials::from_keys("AKIATEST", "secret", None))
        .http_client(http);
    Client::from_conf(config.build())
}

/// moto's KMS.
pub(crate) fn kms() -> Client {
    static PORT: OnceLock<u16> = OnceLock::new();
    let port = *PORT.get_or_init(start);
    let http = aws_smithy_http_client::Builder::new().build_http();
    client(format!("http://127.0.0.1:{port}"), http)
}

/// A KMS that answers `answer(operation, body)`: a status and a body.
pub(crate) fn answering(
    answer: impl Fn(&str, &str) -> (u16, String) + Send + Sync + 'static,
) -> Client {
    let connector = SharedHttpConnector::new(Answering(Arc::new(answer)));
    let http = http_client_fn(move |_, _| connector.clone());
    client("http://127.0.0.1:9".to_owned(), http)
}

type Answer = dyn Fn(&str, &str) -> (u16, String) + Send + Sync;

#[derive(Clone)]
struct Answering(Arc<Answer>);

impl fmt::Debug for Answering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answering")
    }
}

impl HttpConnector for Answering {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let operation = request.headers().get("x-amz-target").unwrap();
        let body = str::from_utf8(request.body().bytes().unwrap()).unwrap();
        let (status, body) = self.0(operation.trim_start_matches("TrentService."), body);
        let answer = HttpResponse::new(status.try_into().unwrap(), SdkBody::from(body));
        HttpConnectorFuture::ready(Ok(answer))
    }
}

/// Creates a key and returns its ARN.
pub(crate) async fn make_key(kms: &Client, spec: KeySpec, usage: KeyUsageType) -> String {
    let made = kms.create_key().key_spec(spec).key_usage(usage).send().await.unwrap();
    made.key_metadata.unwrap().arn.unwrap()
}

/// Creates a signing key and returns its ARN.
pub(crate) async fn signing_key(kms: &Client) -> String {
    make_key(kms, KeySpec::Rsa2048, KeyUsageType::SignVerify).await
}

/// Starts the program and waits until it answers. The kernel ends it with this process.
fn start() -> u16 {
    let Ok(program) = std::env::var("CANYON_TEST_MOTO") else {
        panic!("CANYON_TEST_MOTO is not set; run ./scripts/setup");
    };
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (started, child) = mpsc::channel::<Child>();
    // `--pdeathsig` fires when the thread that started the child ends, so this thread never ends.
    std::thread::spawn(move || {
        let spawned = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", &program, "-H", "127.0.0.1", "-p"])
            .arg(port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        started
            .send(spawned.unwrap_or_else(|error| panic!("cannot start {program}: {error}")))
            .ok();
        loop {
            std::thread::park();
        }
    });
    #[expect(clippy::zombie_processes, reason = "it must run as long as this process")]
    let mut child = child.recv().unwrap();
    let deadline = Instant::now() + Duration::from_mins(1);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(child.try_wait().unwrap().is_none(), "moto ended: {child:?}");
        assert!(Instant::now() < deadline, "moto did not answer within 60 s");
        std::thread::sleep(Duration::from_millis(50));
    }
    port
}
