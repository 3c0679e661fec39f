use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// What a runner writes, in order.
#[derive(Clone, Debug)]
enum Written {
    Log(Vec<u8>),
    Event(String),
}

/// The output and, for each write, the lengths of output and log after it.
struct Run {
    output: Vec<u8>,
    log: Vec<u8>,
    events: Vec<u8>,
    ends: Vec<(usize, usize)>,
}

fn run(writes: &[Written]) -> Run {
    let (mut encoder, output) = Encoder::begin("a runner\nbegins");
    let mut run = Run { output, log: Vec::new(), events: Vec::new(), ends: Vec::new() };
    for write in writes {
        match write {
            Written::Log(bytes) => {
                run.output.extend(encoder.log(bytes));
                run.log.extend(bytes);
            }
            Written::Event(json) => {
                run.output.extend(encoder.event(json));
                run.events.extend_from_slice(json.as_bytes());
                run.events.push(b'\n');
            }
        }
        run.ends.push((run.output.len(), run.log.len()));
    }
    run
}

/// Logs with forged prefixes, long ones, and binary ones.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        "[ -~é\t]{0,60}",
        Just("~canyon at 7".to_owned()),
        Just("~canyon event {\"type\":\"apply_start\"}".to_owned()),
        Just("x ~canyon line ~canyon part \n~canyon bytes AAAA\n~canyon at 0".to_owned()),
        Just(String::new()),
        Just("\n\n \n".to_owned()),
        Just("é".repeat(LONGEST)),
        Just(format!("{}~canyon at 3", "x".repeat(LONGEST))),
    ];
    let text = (vec(line, 1..5), any::<bool>()).prop_map(|(lines, ended)| {
        let end = if ended { "\n" } else { "" };
        format!("{}{end}", lines.join("\n")).into_bytes()
    });
    prop_oneof![8 => text, 1 => vec(any::<u8>(), 0..300)]
}

fn writes() -> impl Strategy<Value = Vec<Written>> {
    let event = "\\{[ -~]{0,80}\\}".prop_map(Written::Event);
    vec(prop_oneof![3 => bytes().prop_map(Written::Log), 1 => event], 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn the_whole_output_contains_everything_that_was_written(writes in writes(), from in 0..=1000_usize) {
        let run = run(&writes);
        let from = fraction(from, run.log.len());
        prop_assert_eq!(&Tail::read(&run.output, Stream::Log, from as u64), &run.log[from..]);
        prop_assert_eq!(&Tail::read(&run.output, Stream::Events, 0), &run.events);
        for line in run.output.split(|byte| *byte == b'\n') {
            prop_assert!(line.len() < 16 * 1024);
        }
    }

    #[test]
    fn any_part_of_the_output_contains_only_what_was_written(
        writes in writes(), start in 0..=1000_usize, end in 0..=1000_usize, from in 0..=1000_usize,
    ) {
        let run = run(&writes);
        let (start, end) = (fraction(start, run.output.len()), fraction(end, run.output.len()));
        let part = &run.output[start.min(end)..end];
        let from = fraction(from, run.log.len());
        let read = Tail::read(part, Stream::Log, from as u64);
        prop_assert!(run.log[from..].starts_with(&read), "{:?}", String::from_utf8_lossy(&read));
        let events = Tail::read(part, Stream::Events, 0);
        let held = run.events.windows(events.len().max(1)).any(|window| window == events);
        prop_assert!(events.is_empty() || held, "{:?}", String::from_utf8_lossy(&events));
    }

    #[test]
    fn a_killed_runner_loses_only_its_last_write(
        writes in writes(), end in 0..=1000_usize,
    ) {
        let run = run(&writes);
        let end = fraction(end, run.output.len());
        let read = Tail::read(&run.output[..end], Stream::Log, 0);
        let whole = run.ends.iter().filter(|(output, _)| *output <= end).map(|(_, log)| *log).max();
        prop_assert!(read.len() >= whole.unwrap_or(0));
    }

    #[test]
    fn the_newest_part_contains_the_log_from_its_second_line_on(
        writes in writes(), start in 0..=1000_usize,
    ) {
        let run = run(&writes);
        let start = fraction(start, run.output.len());
        let part = &run.output[start..];
        let begin = part.iter().position(|byte| *byte == b'\n').map_or(part.len(), |at| at + 1);
        let is_marked = String::from_utf8_lossy(&part[begin..]).contains("\n~canyon at ");
        // The first write that is completely after that line.
        let first = run.ends.iter().find(|(output, _)| *output >= start + begin);
        if let (true, Some((_, log))) = (is_marked, first) {
            prop_assert_eq!(&Tail::read(part, Stream::Log, *log as u64), &run.log[*log..]);
        }
    }
}

/// `share` thousandths of `of`.
fn fraction(share: usize, of: usize) -> usize {
    of * share / 1000
}

#[test]
fn the_log_is_readable_as_it_is() {
    let (mut encoder, mut output) = Encoder::begin("canyon-runner begins");
    output.extend(encoder.log(b"==> tofu init\n\nready\n"));
    output.extend(encoder.event("{}"));
    output.extend(encoder.end());
    let expected = "~canyon note canyon-runner begins\n~canyon at 0\n==> tofu init\n\
                    ~canyon line \nready\n~canyon event {}\n~canyon at 21\n";
    assert_eq!(String::from_utf8(output).unwrap(), expected);
}

#[test]
fn a_foreign_line_invalidates_its_part_of_the_log_and_shifts_no_other() {
    let (mut encoder, mut output) = Encoder::begin("");
    let line = format!("{}\n", "x".repeat(1000));
    for _ in 0..100 {
        output.extend(encoder.log(line.as_bytes()));
    }
    let mut foreign = output.clone();
    foreign.splice(0..0, b"\n".iter().copied());
    let behind = foreign.windows(11).position(|window| window == b"~canyon at ").unwrap();
    let behind = behind + foreign[behind..].iter().position(|byte| *byte == b'\n').unwrap() + 1;
    foreign.splice(behind..behind, b"by another writer\n".iter().copied());
    let marked = Tail::read(&output, Stream::Log, 0).len();
    assert_eq!(marked, 100 * line.len());
    assert_eq!(Tail::read(&foreign, Stream::Log, 0), b"");
    let later = Tail::read(&foreign, Stream::Log, 80 * line.len() as u64);
    assert!(later == line.repeat(20).into_bytes());
}

#[test]
fn a_long_line_is_written_in_parts_that_a_container_runtime_keeps_whole() {
    for bytes in [LONGEST - 1, LONGEST, LONGEST + 1, 5 * LONGEST] {
        let text = "x".repeat(bytes) + "\n";
        let run = run(&[Written::Log(text.clone().into_bytes())]);
        for line in run.output.split(|byte| *byte == b'\n') {
            assert!(line.len() < 16 * 1024, "{bytes}: a line of {} bytes", line.len());
        }
        assert_eq!(Tail::read(&run.output, Stream::Log, 0), text.as_bytes());
    }
}
