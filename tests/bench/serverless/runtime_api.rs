//! The runtime API for one start of one function, with as little work as possible: its own time
//! counts as the function's.

use crate::Error;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// The limit of a start, which takes milliseconds.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Times from exec.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// Until it asked for its first event.
    pub(crate) next: Duration,
    /// Until it had answered that event.
    pub(crate) answered: Option<Duration>,
}

/// Starts `command` and delivers the event, if there is one. `right` checks the answer.
pub(crate) fn start(
    command: &mut Command,
    event: Option<&str>,
    right: impl Fn(&str) -> bool,
) -> Result<Start, Error> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    command.env("AWS_LAMBDA_RUNTIME_API", listener.local_addr()?.to_string());
    let begun = Instant::now();
    let mut child = Killed(command.spawn()?);
    let found = serve(&listener, begun, event, right);
    if found.is_err()
        && let Some(status) = child.0.try_wait()?
    {
        return Err(format!("it ended: {status}").into());
    }
    found
}

/// A process that ends when this is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(
    listener: &TcpListener,
    begun: Instant,
    event: Option<&str>,
    right: impl Fn(&str) -> bool,
) -> Result<Start, Error> {
    let mut stream = BufReader::new(accept(listener)?);
    let (line, _) = request(&mut stream)?;
    let next = begun.elapsed();
    if !line.starts_with("GET /2018-06-01/runtime/invocation/next ") {
        return Err(format!("it began with {line}").into());
    }
    let Some(event) = event else { return Ok(Start { next, answered: None }) };
    let deadline = jiff::Timestamp::now() + START_LIMIT;
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         lambda-runtime-aws-request-id: 8476a536-e9f4-11e8-9739-2dfe598c3fcd\r\n\
         lambda-runtime-deadline-ms: {}\r\n\
         lambda-runtime-invoked-function-arn: arn:aws:lambda:us-east-1:123456789012:function:api\r\n\
         lambda-runtime-trace-id: Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Sampled=0\r\n\r\n{event}",
        event.len(),
        deadline.as_millisecond(),
    );
    stream.get_mut().write_all(answer.as_bytes())?;
    // It may answer over another connection; which one becomes readable first is not known.
    let (line, body) = request(&mut stream)?;
    let answered = begun.elapsed();
    if line.contains("/response ") && right(&body) {
        Ok(Start { next, answered: Some(answered) })
    } else {
        Err(format!("it answered {line}: {body}").into())
    }
}

fn accept(listener: &TcpListener) -> Result<TcpStream, Error> {
    // A program that ends before its first request must not hang the benchmark.
    listener.set_nonblocking(true)?;
    let deadline = Instant::now() + START_LIMIT;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(START_LIMIT))?;
                return Ok(stream);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                if Instant::now() > deadline {
                    return Err("it never asked for an event".into());
                }
                std::thread::sleep(Duration::from_micros(100));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// The request line and the body.
fn request(stream: &mut BufReader<TcpStream>) -> Result<(String, String), Error> {
    let mut first = String::new();
    stream.read_line(&mut first)?;
    let (mut length, mut chunked) = (0, false);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        chunked |= line == "transfer-encoding: chunked";
    }
    let mut body = Vec::new();
    if chunked {
        loop {
            let mut size = String::new();
            stream.read_line(&mut size)?;
            let size = u64::from_str_radix(size.trim(), 16)?;
            stream.take(size).read_to_end(&mut body)?;
            stream.read_line(&mut String::new())?;
            if size == 0 {
                break;
            }
        }
    } else {
        stream.take(length).read_to_end(&mut body)?;
    }
    Ok((first.trim().to_owned(), String::from_utf8_lossy(&body).into_owned()))
}
