//! Counts what jobs note: a line with the job's name and what it did, see `act.c`.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

type Counts = Arc<Mutex<HashMap<String, usize>>>;

/// Listens as long as the test's process lives.
pub(crate) struct Notes {
    pub(crate) address: SocketAddr,
    counts: Counts,
}

impl Notes {
    /// At a free port of `host`.
    pub(crate) fn at(host: &str) -> Self {
        let listener = TcpListener::bind((host, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let counts = Counts::default();
        let noted = counts.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let mut line = String::new();
                let read = connection.and_then(|one| BufReader::new(one).read_line(&mut line));
                if read.is_ok() {
                    *noted.lock().unwrap().entry(line.trim().to_owned()).or_default() += 1;
                }
            }
        });
        Self { address, counts }
    }

    pub(crate) fn count(&self, key: &str, what: &str) -> usize {
        self.counts.lock().unwrap().get(&format!("{key} {what}")).copied().unwrap_or_default()
    }
}
