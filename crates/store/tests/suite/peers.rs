//! The two implementations of the table that every test runs against.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use canyon_store::{Table, embedded::Embedded};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use uuid::Uuid;

/// Makes two tests of each named function `async fn(Table)`: one for each implementation.
macro_rules! on_each_table {
    ($($test:ident),+ $(,)?) => {
        mod dynoxide {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let (_folder, table) = crate::peers::dynoxide().await;
                super::$test(table).await;
            }
        )+}

        mod dynamodb_local {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(crate::peers::dynamodb_local().await).await;
            }
        )+}
    };
}

/// A table in a new database file, which is deleted with the folder.
pub(crate) async fn dynoxide() -> (TempDir, Table) {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(&folder.path().join("canyon.db"), Arc::new(|| {})).unwrap();
    let table = embedded.table("canyon");
    table.ensure().await.unwrap();
    (folder, table)
}

/// A table of its own in the one DynamoDB Local of this test binary.
pub(crate) async fn dynamodb_local() -> Table {
    static PORT: OnceLock<u16> = OnceLock::new();
    let port = *PORT.get_or_init(start_dynamodb_local);
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .endpoint_url(format!("http://127.0.0.1:{port}"))
        // It uses the access key only to separate databases, and checks no signature.
        .credentials_provider(Credentials::for_tests())
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    let table = Table::new(Client::from_conf(config), format!("canyon-{}", Uuid::now_v7()));
    table.ensure().await.unwrap();
    table
}

/// Starts the program and waits until it answers. The kernel ends it with this process.
fn start_dynamodb_local() -> u16 {
    let Ok(program) = std::env::var("CANYON_TEST_DYNAMODB_LOCAL") else {
        panic!("CANYON_TEST_DYNAMODB_LOCAL is not set; run ./scripts/setup dynamodb-local");
    };
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (started, child) = mpsc::channel::<Child>();
    // `--pdeathsig` fires when the thread that started the child ends, so this thread never ends.
    std::thread::spawn(move || {
        let spawned = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", &program, "--port", &port.to_string()])
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
        assert!(child.try_wait().unwrap().is_none(), "DynamoDB Local ended: {child:?}");
        assert!(Instant::now() < deadline, "DynamoDB Local did not answer within 60 s");
        std::thread::sleep(Duration::from_millis(50));
    }
    port
}
