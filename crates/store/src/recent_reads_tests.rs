use super::*;
use crate::embedded::Embedded;
use crate::items::{number, text};
use crate::meter::Meter;
use futures::FutureExt as _;
use proptest::prelude::*;
use std::convert::Infallible;

/// A table of one attribute for each key, and whether a write or a removal of expired items is in progress.
#[derive(Debug, Default)]
struct Stored {
    items: HashMap<u8, u64>,
    moment: Moment,
    is_writing: bool,
    is_removing: bool,
}

#[derive(Clone, Debug, Default)]
struct FakeTable(Arc<Mutex<Stored>>);

impl Changes for FakeTable {
    fn moment(&self) -> Option<Moment> {
        let stored = self.0.lock().unwrap();
        (!stored.is_writing && !stored.is_removing).then_some(stored.moment)
    }
}

fn key(number: u8) -> Key {
    Key { pk: "org".to_owned(), sk: number.to_string() }
}

fn item(value: u64) -> Item {
    HashMap::from([("value".to_owned(), number(value))])
}

#[derive(Clone, Debug)]
enum Step {
    BeginWrite,
    Write {
        key: u8,
        value: Option<u64>,
    },
    EndWrite,
    BeginRemoval,
    Remove {
        key: u8,
    },
    EndRemoval,
    Read {
        key: u8,
    },
    /// The item changes while it is read.
    ReadBeside {
        key: u8,
        change: Beside,
    },
}

/// What happens while an item is read.
#[derive(Clone, Copy, Debug)]
enum Beside {
    /// It is written after the table has answered.
    AnsweredThenWritten(u64),
    /// It is written before the table answers.
    WrittenThenAnswered(u64),
    /// It expires and is removed after the table has answered; another caller reads it before the removal ends.
    AnsweredThenRemoved,
}

fn beside() -> impl Strategy<Value = Beside> {
    prop_oneof![
        any::<u64>().prop_map(Beside::AnsweredThenWritten),
        any::<u64>().prop_map(Beside::WrittenThenAnswered),
        Just(Beside::AnsweredThenRemoved),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..3_u8;
    let step = prop_oneof![
        Just(Step::BeginWrite),
        (key(), prop::option::of(any::<u64>())).prop_map(|(key, value)| Step::Write { key, value }),
        Just(Step::EndWrite),
        Just(Step::BeginRemoval),
        key().prop_map(|key| Step::Remove { key }),
        Just(Step::EndRemoval),
        key().prop_map(|key| Step::Read { key }),
        (key(), beside()).prop_map(|(key, change)| Step::ReadBeside { key, change }),
    ];
    prop::collection::vec(step, 1..60)
}

impl FakeTable {
    fn change(&self, change: impl FnOnce(&mut Stored)) {
        change(&mut self.0.lock().unwrap());
    }

    fn stored(&self, key: u8) -> Option<Item> {
        self.0.lock().unwrap().items.get(&key).copied().map(item)
    }

    fn begin(&self) {
        self.change(|stored| {
            stored.moment.batches += 1;
            stored.is_writing = true;
        });
    }

    fn write(&self, key: u8, value: Option<u64>) {
        self.change(|stored| match value {
            Some(value) => drop(stored.items.insert(key, value)),
            None => drop(stored.items.remove(&key)),
        });
    }

    fn end(&self) {
        self.change(|stored| stored.is_writing = false);
    }

    fn begin_removal(&self) {
        self.change(|stored| {
            stored.moment.removals += 1;
            stored.is_removing = true;
        });
    }

    fn end_removal(&self) {
        self.change(|stored| stored.is_removing = false);
    }

    fn is_writing(&self) -> bool {
        self.0.lock().unwrap().is_writing
    }

    fn is_removing(&self) -> bool {
        self.0.lock().unwrap().is_removing
    }

    fn write_whole(&self, key: u8, value: u64) {
        self.begin();
        self.write(key, Some(value));
        self.end();
    }

    /// What the table answers to a read, with a change beside it.
    fn answer_beside(&self, recent: &RecentReads, key: u8, change: Beside) -> Option<Item> {
        if let Beside::WrittenThenAnswered(value) = change {
            self.write_whole(key, value);
        }
        let found = self.stored(key);
        match change {
            Beside::AnsweredThenWritten(value) => self.write_whole(key, value),
            Beside::WrittenThenAnswered(_) => {}
            Beside::AnsweredThenRemoved => {
                self.begin_removal();
                self.write(key, None);
                assert_eq!(read(recent, key, || self.stored(key)), None);
                self.end_removal();
            }
        }
        found
    }
}

fn read(recent: &RecentReads, at: u8, answer: impl FnOnce() -> Option<Item>) -> Option<Item> {
    let read = async || Ok::<_, Infallible>(answer());
    recent.or_read(&key(at), read).now_or_never().unwrap().unwrap()
}

proptest! {
    #[test]
    fn a_read_returns_what_the_table_has_whatever_was_read_and_written_before(steps in steps()) {
        let table = FakeTable::default();
        let recent = RecentReads::new(Arc::new(table.clone()));
        for step in steps {
            match step {
                Step::BeginWrite if !table.is_writing() => table.begin(),
                Step::Write { key, value } if table.is_writing() => table.write(key, value),
                Step::EndWrite => table.end(),
                Step::BeginRemoval if !table.is_removing() => table.begin_removal(),
                Step::Remove { key } if table.is_removing() => table.write(key, None),
                Step::EndRemoval => table.end_removal(),
                Step::Read { key } => {
                    let found = read(&recent, key, || table.stored(key));
                    prop_assert_eq!(found, table.stored(key));
                }
                Step::ReadBeside { key, change } if !table.is_writing() && !table.is_removing() => {
                    read(&recent, key, || table.answer_beside(&recent, key, change));
                }
                // It cannot happen now.
                Step::BeginWrite
                | Step::Write { .. }
                | Step::BeginRemoval
                | Step::Remove { .. }
                | Step::ReadBeside { .. } => {}
            }
        }
    }
}

fn asks_the_table(recent: &RecentReads, at: u8, holds: &Item) -> bool {
    let mut asked = false;
    read(recent, at, || {
        asked = true;
        Some(holds.clone())
    });
    asked
}

#[test]
fn the_table_is_asked_once_for_a_small_item_and_each_time_for_a_large_one() {
    let recent = RecentReads::new(Arc::new(FakeTable::default()));
    let large = HashMap::from([("log".to_owned(), text("x".repeat(MAX_SIZE)))]);
    let asked = |at, holds: &Item| [(); 2].map(|()| asks_the_table(&recent, at, holds));
    assert_eq!(asked(1, &item(1)), [true, false]);
    assert_eq!(asked(2, &large), [true, true]);
}

#[test]
fn the_number_of_items_is_bounded() {
    let recent = RecentReads::new(Arc::new(FakeTable::default()));
    for number in 0..=u8::MAX {
        asks_the_table(&recent, number, &item(1));
    }
    let key = Key { pk: "another".to_owned(), sk: String::new() };
    let moment = recent.changes.moment().unwrap();
    assert_eq!(recent.of(moment).items.len(), MAX_COUNT);
    recent.keep(moment, &key, None);
    assert_eq!(recent.of(moment).items.len(), 1);
}

#[test]
fn the_embedded_table_keeps_what_it_reads_and_one_whose_requests_are_counted_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("canyon.db");
    let table = Embedded::open(&file, Arc::new(|| {})).unwrap().table("canyon");
    assert!(table.recent_reads().is_some());
    assert!(Meter::default().watch(&table).recent_reads().is_none());
}

/// The other task runs on the same thread, so only if the first gives way.
#[tokio::test]
async fn a_long_series_of_kept_reads_gives_way_to_another_task() {
    let recent = RecentReads::new(Arc::new(FakeTable::default()));
    let other = tokio::spawn(async {});
    for _ in 0..1_000 {
        recent.or_read(&key(1), async || Ok::<_, Infallible>(Some(item(1)))).await.unwrap();
    }
    assert!(other.is_finished());
}

#[test]
fn its_debug_text_shows_no_item() {
    let recent = RecentReads::new(Arc::new(FakeTable::default()));
    asks_the_table(&recent, 1, &HashMap::from([("token".to_owned(), text("hidden"))]));
    assert!(!format!("{recent:?}").contains("hidden"));
}
