//! `canyon-agent health`: sends the agent of this machine the request of a probe, for platforms whose probes are commands,
//! such as ECS. It needs no other program in the image.

use crate::exit::Exit;
use crate::settings::layers::Layer;
use crate::settings::listen::Listen;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// How long the answer may take. The platform must allow the command at least this time: the default of ECS is 5 s.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);
/// The most that is read of an answer, in bytes.
const MAX_ANSWER: u64 = 8 * 1024;

/// Checks whether the agent is alive, or whether it is `ready`. `layer` has the address at which the agent listens.
pub async fn ask(layer: &Layer, ready: bool) -> Exit {
    let Some(given) = layer.0.get("listen_health") else {
        let message =
            "CANYON_AGENT_LISTEN_HEALTH is not set: set it to the value that the running agent has";
        return Exit::Settings(message.to_owned());
    };
    let Ok(listen) = given.value.parse::<Listen>() else {
        return Exit::Settings(format!("{} is not {}", given.origin, Listen::FORM));
    };
    let address = listen.reached_at();
    let path = if ready { "/readyz" } else { "/livez" };
    let problem = match tokio::time::timeout(ANSWER_TIMEOUT, get(address, path)).await {
        Ok(Ok((200, _))) => return Exit::Done,
        Ok(Ok((status, body))) => format!("answers {status}: {body}"),
        Ok(Err(error)) => {
            format!(
                "cannot be reached: {error}; check that the agent runs with the same {}",
                given.origin
            )
        }
        Err(_) => format!("does not answer within {} s", ANSWER_TIMEOUT.as_secs()),
    };
    Exit::Broken(format!("http://{address}{path} {problem}"))
}

/// The status and the body of the answer. Uses no proxy, because the agent is on this machine.
async fn get(address: SocketAddr, path: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let status =
        status.ok_or_else(|| io::Error::other("the server that answers is not canyon-agent"))?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok((status, body.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::{Health, serve};
    use crate::settings::faults::Faults;
    use crate::status::Status;
    use std::sync::Arc;
    use tokio::net::TcpListener;

    /// The exit of the command with this value of the setting.
    async fn asked(listen: &str, ready: bool) -> Exit {
        let variable = ("CANYON_AGENT_LISTEN_HEALTH".to_owned(), listen.to_owned());
        ask(&Layer::of_environment([variable], &mut Faults::default()), ready).await
    }

    #[tokio::test]
    async fn the_command_reports_the_answer_to_its_probe() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let status = Arc::new(Status::default());
        let mut health = Health::default();
        health.add(&"acme".parse().unwrap(), status.clone());
        let served = tokio::spawn(serve(listener, Arc::new(health)));
        for listen in [address.to_string(), format!(":{}", address.port())] {
            assert_eq!(asked(&listen, false).await, Exit::Done, "{listen}");
        }
        let unready = format!("http://{address}/readyz answers 503: no session with Canyon");
        assert_eq!(asked(&address.to_string(), true).await, Exit::Broken(unready));
        status.answered(Some(1));
        assert_eq!(asked(&address.to_string(), true).await, Exit::Done);
        served.abort();
        assert!(served.await.is_err_and(|error| error.is_cancelled()), "the server has ended");
        let gone = asked(&address.to_string(), false).await;
        let message = gone.message().unwrap();
        assert_eq!(gone.code(), 1, "{message}");
        assert!(message.contains(&address.to_string()), "{message}");
        assert!(
            message.contains("the agent runs with the same CANYON_AGENT_LISTEN_HEALTH"),
            "{message}"
        );
    }

    #[tokio::test]
    async fn a_missing_or_wrong_address_is_reported_with_its_setting() {
        for listen in ["", "8080"] {
            let refused = asked(listen, false).await;
            assert_eq!(refused.code(), 78);
            let message = refused.message().unwrap();
            assert!(message.starts_with("CANYON_AGENT_LISTEN_HEALTH is not "), "{message}");
        }
    }
}
