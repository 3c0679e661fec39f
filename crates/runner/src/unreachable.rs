//! Recognizes errors of other programs which mean that a service does not answer.
//!
//! Such an error is temporary, so Canyon repeats the attempt; an error of the module is not.
//! The texts are those of OpenTofu 1.12 and Terraform 1.11 (Go's `net` and `net/http`, go-getter,
//! go-retryablehttp, the SDK for S3), of git 2.39 and curl, and of OpenSSH 9.

/// The texts, in lower case.
const TEXTS: [&str; 41] = [
    // Name resolution.
    "no such host",
    "server misbehaving",
    "could not resolve host",
    "name or service not known",
    "temporary failure in name resolution",
    // Connections.
    "connection refused",
    "connection reset",
    "connection timed out",
    "connection closed by",
    "couldn't connect to server",
    "failed to connect to",
    "operation timed out",
    "network is unreachable",
    "no route to host",
    "broken pipe",
    "i/o timeout",
    "tls handshake timeout",
    "client.timeout exceeded",
    "context deadline exceeded",
    "empty reply from server",
    "unexpected eof",
    "early eof",
    "\": eof",
    "the remote end hung up unexpectedly",
    "recv failure",
    "send failure",
    "use of closed network connection",
    // Go's `net/http`, of a connection that ended between two requests or before an answer.
    "server closed idle connection",
    "transport connection broken",
    "after connection loss",
    "timeout awaiting response headers",
    "http2: client conn",
    "received goaway",
    // Answers. For an answer with 429 or 5xx, OpenTofu's registry client prints the status text of the server.
    "request failed after",
    "429 too many requests",
    "500 internal server error",
    "502 bad gateway",
    "503 service unavailable",
    "504 gateway timeout",
    "gateway time-out",
    "slowdown",
];

/// The texts before a status code.
const BEFORE_STATUS: [&str; 4] = [
    "bad response code: ",
    "the requested url returned error: ",
    "https response error statuscode: ",
    "unexpected http response code: ",
];

/// Whether `text` reports that a service did not answer, or answered that it is not available now.
pub fn is_reported_in(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    TEXTS.iter().any(|part| text.contains(part))
        || is_without_reason(&text)
        || BEFORE_STATUS.iter().any(|before| {
            text.match_indices(before).any(|(at, _)| {
                let status = text.get(at + before.len()..at + before.len() + 3);
                status.is_some_and(|status| status == "429" || is_server_error(status))
            })
        })
}

/// Whether go-retryablehttp gave up without a reason. After answers with 429 or 5xx it names none; otherwise the reason
/// follows a colon.
fn is_without_reason(text: &str) -> bool {
    let given_up = text.split_once(" giving up after ");
    let after = given_up.and_then(|(_, rest)| rest.split_once(" attempt(s)"));
    after.is_some_and(|(_, rest)| !rest.starts_with(':'))
}

fn is_server_error(status: &str) -> bool {
    status.starts_with('5') && status.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The real programs have printed each of these errors.
    #[test]
    fn an_outage_is_distinguished_from_a_fault_of_the_module() {
        for outage in [
            "failed to request discovery document: Get \"https://registry.invalid/.well-known/terraform.json\": dial tcp: lookup registry.invalid on 10.0.0.1:53: no such host.",
            "dial tcp 127.0.0.1:1: connect: connection refused",
            "request failed after 2 attempts: 429 Too Many Requests returned from http://127.0.0.1:1/a/b/versions",
            "the request failed after 2 attempts, please try again later: 503 Service Unavailable returned from 127.0.0.1:1",
            "Get \"http://127.0.0.1:1/a/b/versions\": net/http: request canceled (Client.Timeout exceeded while awaiting headers)",
            "Get \"http://127.0.0.1:1/a/b/c/versions\": EOF.",
            "source code from \"http://127.0.0.1:1/x.zip\": bad response code: 503",
            "operation error S3: ListObjectsV2, https response error StatusCode: 503, RequestID: , api error ServiceUnavailable: Service Unavailable",
            "Failed to save state: operation error S3: HeadObject, exceeded maximum number of attempts, 5, https response error StatusCode: 0, RequestID: , HostID: , request send failed, Head \"http://127.0.0.1:1/a\": http: server closed idle connection",
            "Put \"http://127.0.0.1:1/a\": net/http: HTTP/1.x transport connection broken: write tcp 127.0.0.1:2->127.0.0.1:1: write: protocol wrong type for socket",
            "Failed to unlock: UNLOCK http://127.0.0.1:1 giving up after 1 attempt(s)\n\nOpenTofu acquires a lock when accessing your state",
            "fatal: unable to access 'https://git.invalid/x.git/': Could not resolve host: git.invalid",
            "fatal: unable to access 'https://127.0.0.1:1/x.git/': Failed to connect to 127.0.0.1 port 1 after 0 ms: Couldn't connect to server",
            "fatal: unable to access 'http://127.0.0.1:1/x.git/': The requested URL returned error: 503",
            "fatal: unable to access 'http://127.0.0.1:1/x.git/': Empty reply from server",
            "ssh: Could not resolve hostname git.invalid: Name or service not known",
            "ssh: connect to host 127.0.0.1 port 1: Connection refused",
            "kex_exchange_identification: Connection closed by remote host",
        ] {
            assert!(is_reported_in(outage), "{outage}");
        }
        for fault in [
            "provider registry reg.test does not have a provider named reg.test/a/b",
            "Could not resolve provider reg.test/a/b: host reg.test requires authentication credentials",
            "failed to retrieve authentication checksums for provider: 404 Not Found returned from 127.0.0.1:1",
            "Module \"x\" (from main.tf:1) cannot be found in the module registry at reg.test.",
            "source code from \"http://127.0.0.1:1/x.zip\": bad response code: 404",
            "Failed to get state: GET https://127.0.0.1:1 giving up after 1 attempt(s): Get \"https://127.0.0.1:1\": tls: failed to verify certificate: x509: certificate signed by unknown authority",
            "download not supported for scheme 'localhost'",
            "fatal: repository 'http://127.0.0.1:1/x.git/' not found",
            "fatal: Authentication failed for 'http://127.0.0.1:1/x.git/'",
            "fatal: unable to access 'http://127.0.0.1:1/x.git/': The requested URL returned error: 403",
            "git@127.0.0.1: Permission denied (publickey).",
            "Host key verification failed.",
            "fatal: couldn't find remote ref nope",
            "tls: first record does not look like a TLS handshake",
            "no available releases match the given constraints 500.1.0",
        ] {
            assert!(!is_reported_in(fault), "{fault}");
        }
    }
}
