//! `canyon-agent health`: asks the agent of this machine what a probe would, for platforms whose probes are commands, such
//! as ECS. It needs no other program in the image.

use super::listen::Listen;
use crate::exit::Exit;
use crate::settings::layers::Layer;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// How long the answer may take. Who runs the command gives it at least as long: 5 s by default in ECS.
const PATIENCE: Duration = Duration::from_secs(4);
/// The most that is read of an answer, in bytes.
const MAX_ANSWER: u64 = 8 * 1024;

/// Asks whether the agent lives, or whether it is `ready`, at the address of which `layer` says that it answers there.
pub async fn ask(layer: &Layer, ready: bool) -> Exit {
    let Some(given) = layer.0.get("listen_health") else {
        let message =
            "CANYON_AGENT_LISTEN_HEALTH is not set: set it as for the agent that is asked";
        return Exit::Settings(message.to_owned());
    };
    let Ok(listen) = given.value.parse::<Listen>() else {
        return Exit::Settings(format!("{} is not {}", given.origin, Listen::FORM));
    };
    let address = listen.reached_at();
    let path = if ready { "/readyz" } else { "/livez" };
    let wrong = match tokio::time::timeout(PATIENCE, get(address, path)).await {
        Ok(Ok((200, _))) => return Exit::Done,
        Ok(Ok((status, said))) => format!("answers {status}: {said}"),
        Ok(Err(error)) => {
            format!("cannot be asked: {error}; does the agent run, with {} too?", given.origin)
        }
        Err(_) => format!("does not answer within {} s", PATIENCE.as_secs()),
    };
    Exit::Broken(format!("http://{address}{path} {wrong}"))
}

/// The status of an answer, and its body. No proxy is asked: what answers is on this machine.
async fn get(address: SocketAddr, path: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let status = status.ok_or_else(|| io::Error::other("what answers there is no agent"))?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok((status, body.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::serve;
    use crate::settings::faults::Faults;
    use crate::status::Status;
    use std::sync::Arc;
    use tokio::net::TcpListener;

    /// What the command comes to where the setting says this.
    async fn asked(listen: &str, ready: bool) -> Exit {
        let variable = ("CANYON_AGENT_LISTEN_HEALTH".to_owned(), listen.to_owned());
        ask(&Layer::of_environment([variable], &mut Faults::default()), ready).await
    }

    #[tokio::test]
    async fn the_command_says_what_a_probe_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let status = Arc::new(Status::default());
        let served = tokio::spawn(serve(listener, status.clone()));
        for listen in [address.to_string(), format!(":{}", address.port())] {
            assert_eq!(asked(&listen, false).await, Exit::Done, "{listen}");
        }
        let unready = format!("http://{address}/readyz answers 503: no session with Canyon");
        assert_eq!(asked(&address.to_string(), true).await, Exit::Broken(unready));
        status.heard(Some(1));
        assert_eq!(asked(&address.to_string(), true).await, Exit::Done);
        served.abort();
        assert!(served.await.is_err_and(|error| error.is_cancelled()), "nobody listens any more");
        let gone = asked(&address.to_string(), false).await;
        let message = gone.message().unwrap();
        assert_eq!(gone.code(), 1, "{message}");
        assert!(message.contains(&address.to_string()), "{message}");
        assert!(
            message.contains("does the agent run, with CANYON_AGENT_LISTEN_HEALTH"),
            "{message}"
        );
    }

    #[tokio::test]
    async fn who_has_not_said_where_the_agent_answers_is_told_which_setting_says_it() {
        for listen in ["", "8080"] {
            let refused = asked(listen, false).await;
            assert_eq!(refused.code(), 78);
            let message = refused.message().unwrap();
            assert!(message.starts_with("CANYON_AGENT_LISTEN_HEALTH is not "), "{message}");
        }
    }
}
