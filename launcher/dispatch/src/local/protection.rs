//! Protects the secrets of a process that starts local jobs from the modules in them, which run as
//! the same user: the master key of `canyon local`, the key or the token of an agent.

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use std::io;

/// The first descriptor after standard input, output and error.
const FIRST_OTHER: i32 = 3;

/// Protects this process: other processes of its user cannot read its memory, environment and
/// descriptors, and cannot trace it (`PR_SET_DUMPABLE`; `ptrace(2)`, "Ptrace access mode
/// checking"). Processes with the capabilities of an administrator, which root has outside of
/// containers, still can. From here on, neither this process nor its jobs write core dumps.
/// Descriptors that this process inherited from its parent stay open for it, but no job gets them.
///
/// This protects no file: a module of a local job can read every file that the user can read.
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

/// Makes the kernel close each open descriptor in programs that this process starts (`FD_CLOEXEC`).
/// Descriptors that this process opens itself have that flag already; inherited ones do not.
fn close_when_a_program_starts() {
    close_fds::set_fds_cloexec_threadsafe(FIRST_OTHER, &[]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::{FdFlags, dup, fcntl_getfd};

    #[test]
    fn an_inherited_descriptor_stays_open_and_is_passed_to_no_job() {
        let inherited = dup(std::fs::File::open("/dev/null").unwrap()).unwrap();
        assert_eq!(fcntl_getfd(&inherited).unwrap(), FdFlags::empty());
        close_when_a_program_starts();
        assert_eq!(fcntl_getfd(&inherited).unwrap(), FdFlags::CLOEXEC);
    }
}
