//! A record that `strace -f -y -xx` made of one process, and the files that the disk had at a moment of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

/// One line of the record that counts here.
#[derive(Debug)]
enum Event {
    Write {
        file: String,
        at: usize,
        bytes: Vec<u8>,
    },
    Truncate {
        file: String,
        length: usize,
    },
    /// An fsync has succeeded. It confirms the writes before `since`, the event at which it began.
    Synced {
        file: String,
        since: usize,
    },
    /// The process has told a writer, or a reader, that this key is in the table.
    Shown {
        key: String,
        to_reader: bool,
    },
}

/// Which of the writes that no fsync has confirmed the disk has.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unconfirmed {
    /// None of them.
    None,
    /// Two of three; the number chooses which.
    Some(usize),
}

/// The files of a folder.
pub(super) struct Disk {
    pub(super) files: BTreeMap<String, Vec<u8>>,
    /// Whether a write of the process is missing.
    pub(super) is_behind: bool,
}

pub(super) struct Trace {
    events: Vec<Event>,
}

impl Trace {
    /// Reads the record of a process whose database is `database`.
    pub(super) fn read(record: &Path, database: &Path) -> Self {
        let text = std::fs::read_to_string(record).unwrap();
        let stem = database.to_str().unwrap();
        let mut events = Vec::new();
        // By thread: the call that it has begun, and the number of events at that time.
        let mut begun: HashMap<&str, (&str, usize)> = HashMap::new();
        for line in text.lines() {
            let (thread, call) = line.split_once(' ').unwrap();
            let call = call.trim_start();
            if let Some(start) = call.strip_suffix(" <unfinished ...>") {
                begun.insert(thread, (start, events.len()));
                continue;
            }
            let (call, since) = if call.starts_with("<... ") {
                begun.remove(thread).unwrap()
            } else {
                (call, events.len())
            };
            events.extend(event(call, line.ends_with("= 0"), since, stem));
        }
        Self { events }
    }

    /// The moments of interest: right after a key was shown, and right after each fsync from the first shown key on.
    pub(super) fn moments(&self) -> Vec<usize> {
        let first = self.events.iter().position(|event| matches!(event, Event::Shown { .. }));
        let of = |(at, event): (usize, &Event)| match event {
            Event::Shown { .. } | Event::Synced { .. } => Some(at + 1),
            _ => None,
        };
        let from = first.unwrap_or(self.events.len());
        self.events.iter().enumerate().skip(from).filter_map(of).collect()
    }

    pub(super) fn shown_before(&self, moment: usize) -> BTreeSet<String> {
        self.shown(moment).map(|(key, _)| key.clone()).collect()
    }

    /// How many keys a reader saw before their writer had its answer.
    pub(super) fn readers_first(&self) -> usize {
        let mut known = BTreeSet::new();
        let of_reader = |(key, to_reader): (&String, bool)| known.insert(key.clone()) && to_reader;
        self.shown(self.events.len()).map(of_reader).filter(|is_first| *is_first).count()
    }

    fn shown(&self, before: usize) -> impl Iterator<Item = (&String, bool)> {
        self.events[..before].iter().filter_map(|event| match event {
            Event::Shown { key, to_reader } => Some((key, *to_reader)),
            _ => None,
        })
    }

    /// Whether SQLite wrote the log from its start again after a key was shown: then it had copied the log into the database.
    pub(super) fn writer_begins_the_log_again(&self) -> bool {
        let is_shown = |event: &&Event| !matches!(event, Event::Shown { .. });
        self.events.iter().skip_while(is_shown).any(
            |event| matches!(event, Event::Write { file, at: 0, .. } if file == "canyon.db-wal"),
        )
    }

    /// The files after a power cut at `moment`.
    pub(super) fn disk_at(&self, moment: usize, unconfirmed: Unconfirmed) -> Disk {
        let past = &self.events[..moment];
        let mut confirmed: HashMap<&str, usize> = HashMap::new();
        for event in past {
            if let Event::Synced { file, since } = event {
                let until = confirmed.entry(file).or_default();
                *until = (*until).max(*since);
            }
        }
        let mut disk = Disk { files: BTreeMap::new(), is_behind: false };
        for (number, event) in past.iter().enumerate() {
            let (Event::Write { file, .. } | Event::Truncate { file, .. }) = event else {
                continue;
            };
            let is_confirmed = confirmed.get(file.as_str()).is_some_and(|until| number < *until);
            let survives = match unconfirmed {
                _ if is_confirmed => true,
                Unconfirmed::None => false,
                Unconfirmed::Some(choice) => !(number + choice).is_multiple_of(3),
            };
            disk.is_behind |= !survives;
            if survives {
                apply(event, disk.files.entry(file.clone()).or_default());
            }
        }
        disk
    }
}

fn apply(event: &Event, file: &mut Vec<u8>) {
    match event {
        Event::Write { at, bytes, .. } => {
            let end = at + bytes.len();
            if file.len() < end {
                file.resize(end, 0);
            }
            file[*at..end].copy_from_slice(bytes);
        }
        Event::Truncate { length, .. } => file.resize(*length, 0),
        Event::Synced { .. } | Event::Shown { .. } => {}
    }
}

/// Parses `pwrite64(7</folder/canyon.db-wal>, "\x37...", 24, 4096) = 24`, whose result may be missing.
fn event(call: &str, succeeded: bool, since: usize, database: &str) -> Option<Event> {
    let (name, arguments) = call.split_once('(')?;
    let (descriptor, arguments) = arguments.split_once('>')?;
    let path = plain(descriptor.split_once('<')?.1);
    let file = path.strip_prefix(database).map(|rest| format!("canyon.db{rest}"));
    if name == "write" {
        let output = String::from_utf8(unescaped(arguments)).ok()?;
        let (word, key) = output.trim().split_once(' ')?;
        let to_reader = word == "shown";
        let is_key = to_reader || word == "acknowledged";
        return is_key.then(|| Event::Shown { key: key.to_owned(), to_reader });
    }
    // SQLite makes its shared memory anew from the log, and has a journal only until the log begins.
    let file = file.filter(|file| matches!(file.as_str(), "canyon.db" | "canyon.db-wal"))?;
    let number = |text: &str| text.trim().trim_end_matches(')').parse().ok();
    let arguments = arguments.split(") = ").next()?;
    match name {
        "pwrite64" => {
            let at = number(arguments.rsplit(',').next()?)?;
            Some(Event::Write { file, at, bytes: unescaped(arguments) })
        }
        "ftruncate" => {
            Some(Event::Truncate { file, length: number(arguments.rsplit(',').next()?)? })
        }
        "fsync" | "fdatasync" if succeeded => Some(Event::Synced { file, since }),
        _ => None,
    }
}

/// A path, which `-xx` may have escaped as well.
fn plain(path: &str) -> String {
    if path.starts_with("\\x") {
        return String::from_utf8(bytes_of(path)).unwrap();
    }
    path.to_owned()
}

/// The bytes of the first text in quotes.
fn unescaped(arguments: &str) -> Vec<u8> {
    arguments.split('"').nth(1).map_or_else(Vec::new, bytes_of)
}

fn bytes_of(escaped: &str) -> Vec<u8> {
    escaped.split("\\x").skip(1).map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}
