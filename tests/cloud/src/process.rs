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

/// A running program. It is killed when this value goes.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pid: Pid,
}

impl Process {
    /// A command for `program`, with no variables but those that the caller adds, whose output is
    /// appended to the file `log`.
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

    /// Starts what [`Process::command`] described.
    pub(crate) async fn start(command: Command) -> io::Result<Self> {
        let (sender, receiver) = oneshot::channel();
        let order = Order { command, runtime: Handle::current(), sender };
        spawner().send(order).map_err(|_| io::Error::other("the thread that starts them ended"))?;
        let child = receiver.await.map_err(io::Error::other)??;
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let pid = pid.ok_or_else(|| io::Error::other("it has no process id"))?;
        Ok(Self { child, pid })
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Sends a signal; a process that is gone does not matter.
    pub(crate) fn signal(&self, signal: Signal) {
        // Once it was waited for, its id may be somebody else's.
        if self.child.id().is_some() {
            let _ = kill_process(self.pid, signal);
        }
    }

    /// How it ended, if it did.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for its end.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// `kill -9`, and waits until it is gone.
    pub(crate) async fn kill(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.child.wait().await;
    }
}

struct Order {
    command: Command,
    runtime: Handle,
    sender: oneshot::Sender<io::Result<Child>>,
}

/// The thread that starts every process. `--pdeathsig` is about the thread that started the child,
/// not about its process, so this one lives as long as the test run does.
fn spawner() -> &'static mpsc::Sender<Order> {
    static SPAWNER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    SPAWNER.get_or_init(|| {
        let (sender, orders) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for mut order in orders {
                let _entered = order.runtime.enter();
                // Whoever asked may be gone; then the child is dropped here, and so killed.
                let _ = order.sender.send(order.command.spawn());
            }
        });
        sender
    })
}
