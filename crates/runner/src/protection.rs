//! Keeps the runner's secrets from the programs of the module, which run as the same user.
//!
//! These secrets are the claim code and the attempt's token: with the token, a module could report in the
//! runner's name, or get the cloud tokens of the apply while it only plans.
//!
//! * **Memory, environment, descriptors.** The process is not dumpable. So the kernel denies other processes
//!   access to `/proc/<pid>` (`environ`, `mem`, `maps`, `fd`), and denies `ptrace`, `process_vm_readv` and
//!   `pidfd_getfd` (`proc(5)`, `ptrace(2)`, "Ptrace access mode checking"). The exception is a process with
//!   `CAP_SYS_PTRACE` in the same user namespace; some kernels also let `CAP_PERFMON` read. No container of a
//!   job has any capability.
//! * **The environment itself.** A platform can pass the claim code to the runner only in a variable. Tools and
//!   sandboxes may show the environment of a process by rules of their own. So the runner executes itself again,
//!   in the same process, without that variable.
//! * **Inherited descriptors.** In the programs that the runner starts, the kernel closes all descriptors except
//!   standard input, output and error (`FD_CLOEXEC`).
//! * **Core dumps.** A process that is not dumpable writes none. The limit of 0 also applies to OpenTofu and its
//!   providers, which have the cloud's credentials in their memory.

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use rustix::stdio::dup2_stdin;
use secrecy::SecretString;
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io::{self, IoSlice, IoSliceMut, stdin};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use crate::certificates;
use crate::settings::CLAIM_CODE;

/// Set if the claim code is not in the environment, but on standard input.
const CODE_ON_STDIN: &str = "CANYON_CODE_ON_STDIN";
/// The kernel's name for the running program; works even if the program's file was replaced.
const THIS_PROGRAM: &str = "/proc/self/exe";
/// The first descriptor after standard input, output and error.
const FIRST_OTHER: i32 = 3;
/// The longest claim code that is read. Canyon's have fewer than 100 bytes.
const LONGEST_CODE: usize = 4 * 1024;

/// Protects this process. Call it before anything else: before the process starts a second thread, and before a
/// program of a module runs.
///
/// Returns the claim code, if there is one. A process that has the code in its environment does not return: it
/// executes itself again without the code in its environment.
///
/// # Errors
///
/// When the kernel refuses the protection, or the code cannot be read from standard input.
pub fn begin() -> io::Result<Option<SecretString>> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    close_fds::set_fds_cloexec_threadsafe(FIRST_OTHER, &[]);
    // Check for the code first: a pod template could set the other variable (through `envFrom`), and the code must not
    // stay in the environment.
    let Some(code) = std::env::var_os(CLAIM_CODE).filter(|code| !code.is_empty()) else {
        let is_on_stdin = std::env::var_os(CODE_ON_STDIN).is_some();
        return is_on_stdin.then(receive).transpose();
    };
    match start_again(&code) {
        Ok(never) => match never {},
        // A sandbox without `/proc` or without sockets. The kernel's protection is active nevertheless.
        Err(_) => Ok(code.into_string().ok().map(SecretString::from)),
    }
}

/// Replaces this process by the same program without the claim code in its environment. A socket that takes the place
/// of standard input passes the code, together with the real standard input: for a local job that is the job's lock,
/// which must stay the same open file.
fn start_again(code: &OsStr) -> io::Result<Infallible> {
    let input = fcntl_dupfd_cloexec(stdin().as_fd(), 3)?;
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let rights = [input.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&rights));
    sendmsg(&ours, &[IoSlice::new(code.as_bytes())], &mut control, SendFlags::empty())?;
    dup2_stdin(&theirs)?;
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let arguments: Vec<OsString> = arguments.collect();
    let itself = std::env::current_exe().unwrap_or_else(|_| PathBuf::from(THIS_PROGRAM));
    let certificates = certificates::replacements(&itself);
    let mut error = io::Error::from(Errno::NOENT);
    for program in [itself, PathBuf::from(THIS_PROGRAM)] {
        let mut command = Command::new(program);
        command.arg0(&name).args(&arguments).env_remove(CLAIM_CODE).env(CODE_ON_STDIN, "1");
        command.envs(certificates.iter().cloned());
        error = command.exec();
    }
    dup2_stdin(&input)?;
    Err(error)
}

/// Reads what [`start_again`] wrote, and restores standard input.
fn receive() -> io::Result<SecretString> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut code = vec![0; LONGEST_CODE];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received =
        recvmsg(stdin().as_fd(), &mut [IoSliceMut::new(&mut code)], &mut control, flags)?;
    code.truncate(received.bytes);
    let input = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    let input = input.ok_or_else(|| io::Error::other("standard input was not passed on"))?;
    dup2_stdin(&input)?;
    let code =
        String::from_utf8(code).map_err(|_| io::Error::other("the claim code is not text"))?;
    Ok(code.into())
}
