//! Secrets of the cluster, which a job reads as the service account of its pod.

use crate::harness::bed::bed;
use crate::harness::deployments::{failure, request};
use crate::harness::kinds::Kind;
use crate::harness::module::inline;
use crate::harness::site::{ENV, PROJECT, Site};
use canyon_domain::failure::FailureClass;
use serde_json::json;

const PASSWORD: &str = "pa55-of-the-cluster";

#[tokio::test(flavor = "multi_thread")]
async fn a_job_reads_a_secret_of_its_namespace_and_none_of_another() {
    let site = Site::new(Kind::Oidc).await;
    let namespace = &site.namespace.0;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "db", "namespace": namespace },
        "stringData": { "password": PASSWORD },
    });
    bed().apply(&secret.to_string());
    for (id, namespace) in [("own", None), ("others", Some("kube-system"))] {
        let mut store = json!({ "type": "kubernetes-secret" });
        if let Some(namespace) = namespace {
            store["namespace"] = namespace.into();
        }
        site.make(&["secret-stores"], &json!({ "id": id, "store_configuration": store })).await;
    }
    let code = "variable \"db_password\" {}\noutput \"digest\" { value = nonsensitive(sha256(var.db_password)) }\n\
                resource \"terraform_data\" \"tells\" {\n  provisioner \"local-exec\" { command = \"echo tells ${var.db_password}\" }\n}";
    let path = ["projects", PROJECT, "variables"];
    let refer = |store: &str| json!({ "terraform": { "db_password": { "reference": { "store": store, "ref": "db#password" } } } });
    site.client.update(&path, &refer("own")).await.unwrap();
    let ended = site.deploy(inline(code)).await;
    let outputs = site.client.outputs(&ended.id.to_string()).await.unwrap();
    let digest = hex::encode(<sha2::Sha256 as sha2::Digest>::digest(PASSWORD));
    assert_eq!(outputs["digest"].value, Some(digest.into()));
    let log = site.log(&ended.id.to_string()).await;
    assert!(log.contains("tells ****") && !log.contains(PASSWORD), "{log}");

    site.client.update(&path, &refer("others")).await.unwrap();
    let (class, message) = failure(&site.run(&request(ENV, Some(inline(code)))).await);
    assert_eq!(class, FailureClass::Config, "{message}");
    let identity = format!("as the service account of its pod in namespace `{namespace}`");
    for part in [identity.as_str(), "namespace `kube-system` cannot be read", "forbidden"] {
        assert!(message.contains(part), "no `{part}` in: {message}");
    }
}
