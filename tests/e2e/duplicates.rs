//! Twenty runners for one attempt: one of them works, the others end without having read anything.

use crate::harness::deployments::{assert_succeeded, request};
use crate::harness::module::from;
use crate::harness::programs;
use crate::harness::proxy::Proxy;
use crate::harness::server::Server;
use crate::harness::site::{ENV, Site};
use crate::sources::archive;
use serde_json::json;
use std::sync::{Arc, Mutex};

const RUNNERS: usize = 20;
const ROUNDS: usize = 3;

/// Starts the real runner many times, each in a folder of its own, and records how each ended and
/// how many files it left.
fn wrapper(record: &std::path::Path, proxy: &str) -> String {
    format!(
        r#"exec 3<&0
CANYON_API_URL={proxy}
export CANYON_API_URL
for n in $(seq {RUNNERS}); do
    mkdir "runner-$n"
    (
        cd "runner-$n" || exit 1
        '{runner}' <&3
        echo "$? $(ls -A | wc -l)" >> '{record}'
    ) &
done
wait
"#,
        runner = programs::built().join("canyon-runner").display(),
        record = record.display(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn of_twenty_runners_one_works_and_the_others_read_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record");
    let address = Arc::new(Mutex::new(String::new()));
    let proxy = Proxy::start(address.clone()).await;
    programs::with_runner(folder.path(), &wrapper(&record, &proxy.url));
    let server = Server::start_with(folder.path(), programs::search_path(None)).await;
    *address.lock().unwrap() = server.url();
    let site = Site::on(server, &json!({})).await;

    for round in 0..ROUNDS {
        let ledger = folder.path().join(format!("ledger-{round}"));
        let code = format!(
            "resource \"terraform_data\" \"a\" {{\n  triggers_replace = {round}\n  provisioner \"local-exec\" {{\n    command = \"echo ran >> '{}'\"\n  }}\n}}\n",
            ledger.display()
        );
        let (digest, bytes) = archive(&[("main.tf", &code)]);
        site.client.put_archive(&digest, bytes.into()).await.unwrap();
        let _ = std::fs::remove_file(&record);
        let module = from(&format!("sha256:{digest}"));
        let ended = site.run(&request(ENV, Some(module))).await;
        assert_succeeded(&ended);
        assert_eq!(ended.attempts.len(), 1);
        assert_eq!(std::fs::read_to_string(&ledger).unwrap(), "ran\n");

        let mut ends = Vec::new();
        for _ in 0..3_000 {
            let text = std::fs::read_to_string(&record).unwrap_or_default();
            ends = text.lines().map(str::to_owned).collect();
            if ends.len() == RUNNERS {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let lost = ends.iter().filter(|end| *end == "75 0").count();
        let won = ends.iter().filter(|end| end.starts_with("0 ")).count();
        assert_eq!((won, lost), (1, RUNNERS - 1), "exit code and files left: {ends:?}");

        let requests = proxy.take();
        let count = |end: &str| requests.iter().filter(|line| line.ends_with(end)).count();
        assert!(count("/claim") >= RUNNERS, "{requests:?}");
        assert_eq!(count("/bundle"), 1, "only the winner fetches: {requests:?}");
        assert_eq!(count("/results"), 1, "{requests:?}");
    }
}
