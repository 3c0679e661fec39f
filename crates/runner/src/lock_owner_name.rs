//! The name by which OpenTofu names the owner of its locks on this machine: `user@host`.
//!
//! `NewLockInfo` of OpenTofu 1.12 (`internal/states/statemgr/locker.go`) takes the user from Go's `os/user`. OpenTofu's
//! builds do without C, so that reads `/etc/passwd`, and the variable `USER` for a user who is not in it.

use canyon_api::attempt::JudgeLockBody;
use std::fs;

/// The user's name, if `/etc/passwd` has one.
pub fn user() -> Option<String> {
    let passwd = fs::read_to_string("/etc/passwd").ok()?;
    name_of(&passwd, rustix::process::getuid().as_raw()).map(str::to_owned)
}

/// The machine's host name: in a pod or a task, the name of that.
pub fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Whether the lock's owner may be this user on this host: in a container, this job.
pub fn may_be_of(lock: &JudgeLockBody) -> bool {
    let Some((owner, of)) = lock.who.rsplit_once('@') else { return false };
    of == host() && user().is_none_or(|user| user == owner)
}

/// The first name of a user id in the content of `/etc/passwd`.
fn name_of(passwd: &str, uid: u32) -> Option<&str> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_name_is_read_by_its_id() {
        let passwd =
            "root:x:0:0:root:/root:/bin/bash\n# a note\ncanyon:x:998:997::/:/sbin/nologin\n";
        assert_eq!(
            [0, 998, 997].map(|uid| name_of(passwd, uid)),
            [Some("root"), Some("canyon"), None]
        );
    }
}
