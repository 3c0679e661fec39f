//! The name by which OpenTofu names the owner of its locks on this machine: `user@host`.
//!
//! `NewLockInfo` of OpenTofu 1.12 (`internal/states/statemgr/locker.go`) takes the user from Go's `os/user`. OpenTofu's
//! builds do without C, so that reads `/etc/passwd`, and the variable `USER` for a user who is not in it.

use canyon_api::attempt::JudgeLockBody;
use std::env;
use std::fs;

/// The user's name; empty if OpenTofu finds none. `None` if `/etc/passwd` cannot be read.
pub fn user() -> Option<String> {
    let passwd = fs::read_to_string("/etc/passwd").ok()?;
    let uid = rustix::process::getuid().to_string();
    if let Some(name) = name_of(&passwd, &uid) {
        return Some(name.to_owned());
    }
    let has_home = env::var_os("HOME").is_some_and(|home| !home.is_empty());
    Some(env::var("USER").ok().filter(|_| has_home).unwrap_or_default())
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

/// The first name of a user id in the content of `/etc/passwd`, as `matchUserIndexValue` of Go's `os/user` finds it.
fn name_of<'a>(passwd: &'a str, uid: &str) -> Option<&'a str> {
    passwd.lines().map(str::trim).find_map(|line| {
        let fields: Vec<_> = line.splitn(7, ':').collect();
        let [name, _, number, ..] = fields.as_slice() else { return None };
        let is_entry = fields.len() >= 6 && !name.is_empty() && !name.starts_with(['#', '+', '-']);
        (is_entry && *number == uid).then_some(*name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_name_is_read_by_its_id_as_go_reads_it() {
        let passwd = "#old:x:998:997::/:/bin/sh\nroot:x:0:0:root:/root:/bin/bash\n+nis:x:998:1::/:/bin/sh\n\
                      padded:x:0998:997::/:/bin/sh\ncanyon:x:998:997::/:/sbin/nologin\n";
        assert_eq!(
            ["0", "998", "997"].map(|uid| name_of(passwd, uid)),
            [Some("root"), Some("canyon"), None]
        );
    }
}
