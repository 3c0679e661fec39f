//! Tests that need their own engine: its end and restart, and TLS.

use crate::bed::{ACT_IMAGE, Facts, act_image};
use crate::behaviour::{new_job, until, until_gone};
use crate::docker_bed::{Host, name_of};
use canyon_dispatch::{Dispatcher, JobRef, Launch, RemovalOutcome, Started, StopMode};
use canyon_domain::deadline::Observation;
use serde_json::json;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use tempfile::TempDir;

/// A second engine beside that of the cluster, on the same containerd.
struct Engine {
    folder: TempDir,
    bridge: String,
    port: u16,
    daemon: Option<Child>,
}

/// The number of engines so far: each has its own address range.
static ENGINES: AtomicU8 = AtomicU8::new(0);

/// Certificates for an engine and its clients.
const CERTIFICATES: &str = r#"
    set -eu
    cd "$1"
    key() { openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1" 2>/dev/null ||
        openssl ecparam -name prime256v1 -genkey -noout -out "$1"; }
    key ca.key
    openssl req -x509 -new -key ca.key -subj /CN=engines -days 2 -out ca.pem
    for name in server client; do
        key $name.key
        openssl req -new -key $name.key -subj /CN=$name |
            openssl x509 -req -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out $name.pem \
                -extfile extensions 2>/dev/null
    done
    mkdir -p certificates
    cp ca.pem certificates/ca.pem
    cp client.pem certificates/cert.pem
    openssl pkey -in client.key -out certificates/key.pem
"#;

impl Engine {
    /// Starts an engine with the image of `act.c`.
    fn new() -> Self {
        act_image(Facts::of_cluster());
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let extensions = "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n";
        std::fs::write(folder.path().join("extensions"), extensions).unwrap();
        std::fs::write(folder.path().join("docker.json"), "{}").unwrap();
        shell(CERTIFICATES, &[folder.path().to_str().unwrap()]);
        // The port is unique on the machine for now, and so is a name made of it.
        let bridge = format!("cny{port}");
        let range = format!("10.192.{}.1/24", ENGINES.fetch_add(1, Ordering::Relaxed));
        let script = "ip link add $1 type bridge && ip address add $2 dev $1 && ip link set $1 up";
        shell(script, &[&bridge, &range]);
        let mut engine = Self { folder, bridge, port, daemon: None };
        engine.start();
        let pipe = "docker -H $1 save $3 | docker -H $2 load";
        let bed = Facts::of_cluster().get("DOCKER_HOST");
        shell(pipe, &[bed, &engine.address(), ACT_IMAGE]);
        engine
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn address(&self) -> String {
        format!("unix://{}", self.path("docker.sock"))
    }

    fn start(&mut self) {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.path("dockerd.log"))
            .unwrap();
        let daemon = Command::new("dockerd")
            .args(["--host", &self.address()])
            .args(["--host", &format!("tcp://127.0.0.1:{}", self.port), "--tlsverify"])
            .args(["--tlscacert", &self.path("ca.pem"), "--tlscert", &self.path("server.pem")])
            .args(["--tlskey", &self.path("server.key")])
            .args(["--data-root", &self.path("data"), "--exec-root", &self.path("run")])
            .args(["--pidfile", &self.path("pid"), "--config-file", &self.path("docker.json")])
            .args(["--containerd", Facts::of_cluster().get("NODE_SOCKET")])
            .args(["--containerd-namespace", &self.bridge, "--containerd-plugins-namespace"])
            .args([&format!("{}-plugins", self.bridge), "--bridge", &self.bridge])
            .args(["--iptables=false", "--storage-driver", "overlay2"])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.daemon = Some(daemon);
        let script = "for n in $(seq 300); do docker -H $1 version && exit; sleep 0.1; done; cat $2 >&2; exit 1";
        shell(script, &[&self.address(), &self.path("dockerd.log")]);
    }

    /// Ends the engine, and waits for its end.
    fn end(&mut self, signal: &str) {
        let Some(mut daemon) = self.daemon.take() else { return };
        shell("kill $1 $2", &[signal, &daemon.id().to_string()]);
        daemon.wait().unwrap();
        // After a forced end the file still exists, and so does the process that it names.
        let _ = std::fs::remove_file(self.path("pid"));
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let remains = "docker -H $1 ps -aq | xargs -r docker -H $1 rm -fv";
        let _ = Command::new("sh").args(["-c", remains, "sh", &self.address()]).output();
        if !std::thread::panicking() {
            self.end("-TERM");
        } else if let Some(daemon) = &mut self.daemon {
            let _ = (daemon.kill(), daemon.wait());
        }
        let socket = Facts::of_cluster().get("NODE_SOCKET");
        let script = "ip link del $1; umount -l $3/data/overlay2 $3/run/netns/* $3/data 2>/dev/null
            ctr -a $2 namespaces rm $1 $1-plugins";
        let folder = self.folder.path().to_str().unwrap();
        let _ =
            Command::new("sh").args(["-c", script, "sh", &self.bridge, socket, folder]).output();
    }
}

fn shell(script: &str, arguments: &[&str]) {
    let done = Command::new("sh").args(["-c", script, "sh"]).args(arguments).output().unwrap();
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
}

async fn started(host: &Host, kind: &dyn Dispatcher, act: &str) -> (Launch, JobRef) {
    let launch = host.acting(new_job(), act);
    let Started::Now(handle) = kind.start(&launch).await.unwrap() else { panic!() };
    let job = JobRef { handle, ..launch.job.clone() };
    until("it runs", async || host.notes.count(&name_of(&job), "started") == 1).await;
    (launch, job)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_ends_once_with_its_engine_and_not_before_that_is_known() {
    let mut engine = Engine::new();
    let host = Host::at(engine.address());
    let kind = host.dispatcher(host.settings(), &json!({ "timeouts": { "stop_seconds": 5 } }));
    for (signal, act) in [("-TERM", "until-asked"), ("-TERM", "stubborn"), ("-KILL", "stubborn")] {
        let (launch, job) = started(&host, &*kind, act).await;
        let process = Path::new("/proc").join(host.process(&job).to_string());
        engine.end(signal);
        // An engine that is killed leaves its containers running, so nothing is proved.
        assert_eq!(process.exists(), signal == "-KILL");
        assert!(matches!(kind.observe(&job).await, Observation::Unknown(_)));
        assert!(kind.stop(&job, StopMode::Graceful).await.is_err());
        assert_eq!(kind.forget(&job).await, RemovalOutcome::JobAlive);
        engine.start();
        until_gone(&*kind, &job).await;
        assert!(!process.exists());
        let Observation::Gone(Some(failure)) = kind.observe(&job).await else { panic!() };
        // Neither the engine nor a repeated start runs it again.
        assert!(matches!(kind.start(&launch).await.unwrap(), Started::Already(_)));
        assert_eq!(kind.observe(&job).await, Observation::Gone(Some(failure)));
        assert_eq!(host.notes.count(&name_of(&job), "started"), 1);
        assert_eq!(kind.forget(&job).await, RemovalOutcome::Removed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_with_tls_accepts_a_client_with_its_certificate() {
    let engine = Engine::new();
    let host = Host::at(engine.address());
    let mut settings = host.settings();
    settings.host = Some(format!("https://127.0.0.1:{}", engine.port));
    settings.certificates = Some(engine.path("certificates").into());
    let kind = host.dispatcher(settings.clone(), &json!({}));
    let (_, job) = started(&host, &*kind, "until-asked").await;
    assert_eq!(kind.observe(&job).await, Observation::Alive);
    kind.stop(&job, StopMode::Kill).await.unwrap();
    until_gone(&*kind, &job).await;

    // A certificate of another authority.
    shell(
        "cp -r $1 $2 && cd $2 && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
           -subj /CN=other -keyout key.pem -out cert.pem",
        &[&engine.path("certificates"), &engine.path("other")],
    );
    settings.certificates = Some(engine.path("other").into());
    let other = host.dispatcher(settings, &json!({}));
    let Observation::Unknown(reason) = other.observe(&job).await else { panic!() };
    assert!(reason.contains("certificates"), "{reason}");
}
