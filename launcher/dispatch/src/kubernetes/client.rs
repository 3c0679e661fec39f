//! A client for untrusted API servers: it connects to no address of Canyon's own machine, and
//! limits the size of answers.
//!
//! It is kube's own stack (`ClientBuilder`) with these two added, because the builder accepts
//! neither a resolver nor a limit.

use super::limited_body::LimitedBody;
use super::local_clusters::{LocalClusters, Refused, Resolver};
use http::{Request, Uri};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt as _};
use kube::{Client, Config};
use std::time::Duration;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt as _};

/// Limit of the program that a kubeconfig names to sign in with.
const SIGN_IN: Duration = Duration::from_secs(30);

/// Why no client could be created.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientError {
    /// The address is not allowed.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The certificates or the proxy cannot be used.
    #[error("{0}")]
    Unusable(String),
}

impl From<kube::Error> for ClientError {
    fn from(error: kube::Error) -> Self {
        Self::Unusable(error.to_string())
    }
}

/// Creates a client of the server of `config`, on a blocking thread: a kubeconfig may name a
/// program to sign in with, which kube starts and waits for on the thread that creates the client.
pub(super) async fn signed_in(config: Config, local: LocalClusters) -> Result<Client, ClientError> {
    signed_in_within(SIGN_IN, config, local).await
}

async fn signed_in_within(
    limit: Duration,
    config: Config,
    local: LocalClusters,
) -> Result<Client, ClientError> {
    let making = tokio::task::spawn_blocking(move || client(&config, local));
    match tokio::time::timeout(limit, making).await {
        Ok(Ok(made)) => made,
        Ok(Err(error)) => Err(ClientError::Unusable(error.to_string())),
        Err(_) => Err(ClientError::Unusable(format!(
            "the program that its kubeconfig names to sign in with (`exec`) has not ended after {} s; it must run \
             without input",
            limit.as_secs()
        ))),
    }
}

/// Creates a client of the server of `config`. Makes no request, apart from the program that may
/// sign in.
fn client(config: &Config, local: LocalClusters) -> Result<Client, ClientError> {
    // With a proxy, the proxy resolves the server's address.
    let first = config.proxy_url.as_ref().unwrap_or(&config.cluster_url);
    local.judge_host(first.host().unwrap_or_default())?;
    let mut tcp = HttpConnector::new_with_resolver(Resolver(local));
    tcp.enforce_http(false);
    let Some(proxy) = &config.proxy_url else { return over(config, tcp) };
    match proxy.scheme_str() {
        Some("socks5") => over(config, SocksV5::new(proxy.clone(), tcp).map_err(with_cause)),
        Some("http") => over(config, Tunnel::new(proxy.clone(), tcp)),
        Some("https") => {
            let tls = config.rustls_https_connector_with_connector(tcp)?;
            over(config, Tunnel::new(proxy.clone(), tls))
        }
        _ => Err(ClientError::Unusable(format!(
            "proxy `{proxy}` has an unknown scheme; use http, https or socks5"
        ))),
    }
}

type SocksError = <SocksV5<HttpConnector<Resolver>> as Service<Uri>>::Error;

/// The error of the connection to the proxy itself, which this error type does not show.
fn with_cause(error: SocksError) -> BoxError {
    match error {
        SocksError::Inner(cause) => cause.into(),
        other => other.into(),
    }
}

fn over<C>(config: &Config, connector: C) -> Result<Client, ClientError>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError> + Send + Sync + 'static,
{
    let tls = config.rustls_https_connector_with_connector(connector)?;
    let mut patient = TimeoutConnector::new(tls);
    patient.set_connect_timeout(config.connect_timeout);
    patient.set_read_timeout(config.read_timeout);
    patient.set_write_timeout(config.write_timeout);
    patient.set_reset_reader_on_write(config.reset_reader_on_write);
    let http = legacy::Client::builder(TokioExecutor::new()).build(patient);
    let send = tower::service_fn(move |request: Request<Body>| {
        let is_output = request.uri().path().ends_with("/log");
        let answer = http.request(request);
        async move {
            let answer = answer.await?;
            let is_streamed = is_output && answer.status().is_success();
            let bound = if is_streamed { LimitedBody::streamed } else { LimitedBody::whole };
            Ok::<_, BoxError>(answer.map(bound))
        }
    });
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(send);
    Ok(Client::new(service, config.default_namespace.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OnFailure;
    use crate::kubernetes::errors::{self, ClusterEndpoint};
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    const MIB: usize = 1024 * 1024;

    /// A server that answers every request with `piece` until 1 GiB is sent or the client closes
    /// the connection.
    fn endless(piece: &'static [u8]) -> (SocketAddr, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let sent = Arc::<AtomicUsize>::default();
        let count = sent.clone();
        std::thread::spawn(move || {
            for mut client in listener.incoming().map_while(Result::ok) {
                let _ = client.read(&mut [0; 4096]);
                answer(&mut client, piece, &count);
            }
        });
        (address, sent)
    }

    fn answer(client: &mut TcpStream, piece: &[u8], sent: &AtomicUsize) {
        let chunk = piece.repeat(64 * 1024 / piece.len());
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
        let mut sending = client.write_all(head);
        while sending.is_ok() && sent.load(Ordering::SeqCst) < 1024 * MIB {
            let framed = [format!("{:x}\r\n", chunk.len()).as_bytes(), &chunk, b"\r\n"].concat();
            sending = client.write_all(&framed);
            sent.fetch_add(chunk.len(), Ordering::SeqCst);
        }
    }

    async fn asked(piece: &'static [u8], local: LocalClusters) -> (crate::DispatchError, usize) {
        let (address, sent) = endless(piece);
        let config = Config::new(format!("http://{address}").parse().unwrap());
        let client = client(&config, local).unwrap();
        let began = Instant::now();
        let error = client.apiserver_version().await.unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        let place = ClusterEndpoint {
            runner: "r".to_owned(),
            server: format!("https://{address}"),
            proxy: None,
            shown: String::new(),
        };
        let error = errors::explain(&place, "ask", error).await;
        assert!(error.to_string().contains(&address.to_string()), "{error}");
        (error, sent.load(Ordering::SeqCst))
    }

    #[tokio::test]
    async fn an_answer_without_end_is_cut_off() {
        let (error, sent) = asked(b"0123456789abcdef", LocalClusters::Allowed).await;
        assert_eq!(error.on_failure, OnFailure::Observe);
        assert!(error.to_string().contains("more than 16 MiB"), "{error}");
        // What is over the limit is in the buffers of both ends.
        assert!(sent < 40 * MIB, "{} MiB", sent / MIB);
    }

    #[tokio::test]
    async fn an_answer_of_countless_objects_is_cut_off() {
        let (error, sent) = asked(b"{},     ", LocalClusters::Allowed).await;
        assert!(error.to_string().contains("more than 50000 objects"), "{error}");
        assert!(sent < 24 * MIB, "{} MiB", sent / MIB);
    }

    #[tokio::test]
    async fn a_sign_in_program_that_does_not_end_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::new("https://cluster.example".parse().unwrap());
        let wait = format!("while test -d '{}'; do sleep 0.01; done", folder.path().display());
        config.auth_info = serde_json::from_value(serde_json::json!({ "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "interactiveMode": "Never",
            "command": "sh",
            "args": ["-c", wait],
        }}))
        .unwrap();
        let made = signed_in_within(Duration::ZERO, config, LocalClusters::Allowed).await;
        let message = made.map(drop).unwrap_err().to_string();
        assert!(message.contains("has not ended"), "{message}");
    }

    #[tokio::test]
    async fn a_name_and_a_proxy_that_resolve_to_this_machine_are_refused() {
        let (address, sent) = endless(b"0123456789abcdef");
        let port = address.port();
        let mut config = Config::new(format!("http://localhost:{port}").parse().unwrap());
        let place = ClusterEndpoint {
            runner: "r".to_owned(),
            server: config.cluster_url.to_string(),
            proxy: None,
            shown: String::new(),
        };
        for proxy in [None, Some("http"), Some("socks5"), Some("https")] {
            config.proxy_url =
                proxy.map(|kind| format!("{kind}://localhost:{port}").parse().unwrap());
            let place = ClusterEndpoint {
                proxy: config.proxy_url.as_ref().map(Uri::to_string),
                ..place.clone()
            };
            let client = client(&config, LocalClusters::Refused).unwrap();
            let error = client.apiserver_version().await.unwrap_err();
            let error = errors::explain(&place, "ask", error).await;
            assert_eq!(error.on_failure, OnFailure::EndAttempt, "{proxy:?}: {error}");
            assert!(error.to_string().contains("is this machine itself"), "{proxy:?}: {error}");
            assert!(error.to_string().contains("CANYON_ALLOW_LOCAL_CLUSTERS"), "{error}");
        }
        for given in ["127.0.0.1", "[::1]", "169.254.169.254"] {
            config.proxy_url = Some(format!("http://{given}:{port}").parse().unwrap());
            assert!(client(&config, LocalClusters::Refused).is_err(), "{given}");
        }
        assert_eq!(sent.load(Ordering::SeqCst), 0);
    }
}
