//! Counts the notes of jobs, and names their acts: a request is a line with the job's name and what
//! it did, or `act?`, see `act.c`.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

type Counts = Arc<Mutex<HashMap<String, usize>>>;

/// The act of each job, by its name.
type Acts = Arc<Mutex<HashMap<String, &'static str>>>;

/// A server that listens as long as the test's process lives.
pub(crate) struct Notes {
    pub(crate) address: SocketAddr,
    counts: Counts,
    acts: Acts,
}

impl Notes {
    /// Listens at a free port of `host`.
    pub(crate) fn at(host: &str) -> Self {
        let listener = TcpListener::bind((host, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (counts, acts) = (Counts::default(), Acts::default());
        let (noted, named) = (counts.clone(), acts.clone());
        std::thread::spawn(move || {
            for mut connection in listener.incoming().flatten() {
                let Some(line) = line_of(&connection) else { continue };
                if let Some(key) = line.strip_suffix(" act?") {
                    let act = named.lock().unwrap().get(key).copied().unwrap_or_default();
                    let _ = connection.write_all(act.as_bytes());
                } else {
                    *noted.lock().unwrap().entry(line).or_default() += 1;
                }
            }
        });
        Self { address, counts, acts }
    }

    /// Sets the act of a job that asks for it. Other jobs have it in their environment.
    #[allow(dead_code, reason = "for jobs whose environment the test does not write")]
    pub(crate) fn tell(&self, key: String, act: &'static str) {
        self.acts.lock().unwrap().insert(key, act);
    }

    pub(crate) fn count(&self, key: &str, what: &str) -> usize {
        self.counts.lock().unwrap().get(&format!("{key} {what}")).copied().unwrap_or_default()
    }
}

fn line_of(connection: &TcpStream) -> Option<String> {
    let mut line = String::new();
    BufReader::new(connection).read_line(&mut line).ok()?;
    Some(line.trim().to_owned())
}
