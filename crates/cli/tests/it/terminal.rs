//! A program on a pseudo terminal, as a user runs it: stdin and stderr are the terminal, and stdout is a pipe.

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longer than any step here takes on a busy machine.
const LIMIT: Duration = Duration::from_mins(1);

/// A user at the terminal.
pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    seen: Vec<u8>,
}

impl Terminal {
    /// Starts `command`; `typed` is in the terminal's input before that.
    pub(crate) fn start(command: &mut Command, typed: &str) -> Self {
        // Programs of other tests must not inherit it and keep it open.
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let mut keyboard = File::from(openpt(flags).unwrap());
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let line = ioctl_tiocgptpeer(&keyboard, flags).unwrap();
        let size = Winsize { ws_row: 50, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&line, size).unwrap();
        keyboard.write_all(typed.as_bytes()).unwrap();
        command.stdin(line.try_clone().unwrap()).stdout(Stdio::piped()).stderr(line);
        let child = command.spawn().unwrap();
        // The command keeps its end open: the screen ends when the last process has closed it.
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let (sender, screen) = channel();
        let mut reader = keyboard.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            // The read fails with EIO after the last process has closed the terminal.
            while let Ok(length @ 1..) = reader.read(&mut part) {
                let _ = sender.send(part[..length].to_vec());
            }
        });
        Self { child, keyboard, screen, seen: Vec::new() }
    }

    /// Waits until `text` is on the screen.
    pub(crate) fn until(&mut self, text: &str) -> &mut Self {
        let deadline = Instant::now() + LIMIT;
        while !String::from_utf8_lossy(&self.seen).contains(text) {
            let left = deadline.saturating_duration_since(Instant::now());
            let part = self.screen.recv_timeout(left);
            let seen = String::from_utf8_lossy(&self.seen);
            self.seen.extend(part.unwrap_or_else(|_| panic!("no `{text}` in:\n{seen}")));
        }
        self
    }

    /// Types `text` when the program asks.
    pub(crate) fn answer(&mut self, text: &str) -> &mut Self {
        self.until("Only `yes` is accepted: ").types(text)
    }

    /// Types `text`.
    pub(crate) fn types(&mut self, text: &str) -> &mut Self {
        self.keyboard.write_all(text.as_bytes()).unwrap();
        self
    }

    /// The id of the program's process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Exit code, stdout and the terminal, without the live line.
    pub(crate) fn end(&mut self) -> String {
        let mut stdout = String::new();
        let deadline = Instant::now() + LIMIT;
        let code = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status.code();
            }
            let seen: Vec<u8> = self.screen.try_iter().flatten().collect();
            self.seen.extend(seen);
            // A question that the test does not expect would never end.
            let seen = String::from_utf8_lossy(&self.seen);
            assert!(Instant::now() < deadline, "it does not end:\n{seen}");
            std::thread::sleep(Duration::from_millis(10));
        };
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        while let Ok(part) = self.screen.recv_timeout(LIMIT) {
            self.seen.extend(part);
        }
        let seen = lines(&String::from_utf8_lossy(&self.seen));
        let code = code.map_or("signal".to_owned(), |code| code.to_string());
        format!("exit: {code}\n--- stdout\n{stdout}--- terminal\n{seen}")
    }
}

/// Exit code and terminal of a program whose stdout and stderr are a terminal with this many columns; 0 if the terminal
/// does not know.
pub(crate) fn shown_on_terminal(command: &mut Command, columns: u16) -> String {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let mut screen = File::from(openpt(flags).unwrap());
    grantpt(&screen).unwrap();
    unlockpt(&screen).unwrap();
    let line = ioctl_tiocgptpeer(&screen, flags).unwrap();
    let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&line, size).unwrap();
    command.stdin(Stdio::null()).stdout(line.try_clone().unwrap()).stderr(line);
    let mut child = command.spawn().unwrap();
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (mut seen, mut part) = (Vec::new(), [0; 4096]);
    // The read fails with EIO after the program has closed the terminal.
    while let Ok(length @ 1..) = screen.read(&mut part) {
        seen.extend(&part[..length]);
    }
    let code = child.wait().unwrap().code().unwrap();
    format!("exit: {code}\n{}", String::from_utf8_lossy(&seen).replace('\r', ""))
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // If a test fails, its program may still wait for an answer.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines that stay on the screen.
fn lines(seen: &str) -> String {
    let moves = |line: &str| {
        let spins = |c: char| ('\u{2800}'..='\u{28ff}').contains(&c) || c == ' ';
        line.is_empty() || line.starts_with(spins) && line.ends_with("s]")
    };
    let lines = seen.split(['\r', '\n']).map(without_steering).filter(|line| !moves(line));
    lines.fold(String::new(), |text, line| text + &line + "\n")
}

/// Removes control sequences `ESC [ ... letter`.
fn without_steering(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    let rest =
        parts.map(|part| part.split_once(|c: char| c.is_ascii_alphabetic()).map(|two| two.1));
    rest.flatten().fold(first, |text, part| text + part)
}
