//! Keeps the secrets of a process that starts local jobs from the modules that run in them, as the same
//! user: the master key of `canyon local`, the key or the token of an agent.

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use std::io;

/// The first descriptor behind standard input, output and error.
const FIRST_OTHER: i32 = 3;

/// Makes this process one whose memory, environment and descriptors other processes of its user cannot read,
/// and which they cannot trace (`PR_SET_DUMPABLE`; `ptrace(2)`, "Ptrace access mode checking"). The exception
/// is a process with the capabilities of an administrator, as root has them outside of containers. Neither this
/// process nor its jobs write core dumps from here on. The descriptors that this process has inherited from its own
/// parent stay open for it, and no job gets them.
///
/// This protects no file: what the user can read, a module of a local job can.
///
/// # Errors
///
/// If the kernel refuses it.
pub fn protect_this_process() -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    close_when_a_program_starts();
    Ok(())
}

/// Has the kernel close each open descriptor in the programs that this one starts (`FD_CLOEXEC`). What this program
/// opens itself is marked so from the beginning; what it has inherited is not.
fn close_when_a_program_starts() {
    close_fds::set_fds_cloexec_threadsafe(FIRST_OTHER, &[]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::{FdFlags, dup, fcntl_getfd};

    #[test]
    fn a_descriptor_that_was_inherited_stays_open_and_goes_to_no_job() {
        let inherited = dup(std::fs::File::open("/dev/null").unwrap()).unwrap();
        assert_eq!(fcntl_getfd(&inherited).unwrap(), FdFlags::empty());
        close_when_a_program_starts();
        assert_eq!(fcntl_getfd(&inherited).unwrap(), FdFlags::CLOEXEC);
    }
}
