//! Programs that end with the test run, however that ends.

use rustix::process::{Pid, Signal, kill_process};
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// A running program. Dropping this value kills it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pid: Pid,
}

impl Process {
    /// A command for `program` with only the variables that the caller adds. Its output is appended
    /// to the file `log`.
    pub(crate) fn command(program: &Path, log: &Path) -> io::Result<Command> {
        let log = OpenOptions::new().create(true).append(true).open(log)?;
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true);
        Ok(command)
    }

    /// Starts the program of a [`Process::command`].
    pub(crate) async fn start(command: Command) -> io::Result<Self> {
        let (sender, receiver) = oneshot::channel();
        let request = SpawnRequest { command, runtime: Handle::current(), sender };
        spawner()
            .send(request)
            .map_err(|_| io::Error::other("the thread that starts them ended"))?;
        let child = receiver.await.map_err(io::Error::other)??;
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let pid = pid.ok_or_else(|| io::Error::other("it has no process id"))?;
        Ok(Self { child, pid })
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Sends a signal; a process that has ended is no error.
    pub(crate) fn signal(&self, signal: Signal) {
        // Once it was waited for, its id may belong to another process.
        if self.child.id().is_some() {
            let _ = kill_process(self.pid, signal);
        }
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for its end.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Kills it with `kill -9`, and waits for its end.
    pub(crate) async fn kill(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.child.wait().await;
    }
}

struct SpawnRequest {
    command: Command,
    runtime: Handle,
    sender: oneshot::Sender<io::Result<Child>>,
}

/// The thread that starts every process. `--pdeathsig` follows the thread that started the child,
/// not its process, so this thread lives as long as the test run does.
fn spawner() -> &'static mpsc::Sender<SpawnRequest> {
    static SPAWNER: OnceLock<mpsc::Sender<SpawnRequest>> = OnceLock::new();
    SPAWNER.get_or_init(|| {
        let (sender, requests) = mpsc::channel::<SpawnRequest>();
        std::thread::spawn(move || {
            for mut request in requests {
                let _entered = request.runtime.enter();
                // The requester may be gone; then the child is dropped here, which kills it.
                let _ = request.sender.send(request.command.spawn());
            }
        });
        sender
    })
}
