//! Whether the kernel killed a process because memory ran out.
//!
//! The count is in the cgroup (v2) of the job:
//! <https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files>.

use std::fs;
use std::path::Path;

/// How many processes of this job the kernel has killed so far because memory ran out; 0 if the machine has no count.
pub fn kills() -> u64 {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let Some(group) = own.lines().find_map(|line| line.strip_prefix("0::/")) else { return 0 };
    let file = Path::new("/sys/fs/cgroup").join(group).join("memory.events");
    count(&fs::read_to_string(file).unwrap_or_default())
}

fn count(events: &str) -> u64 {
    let line = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_of_killed_processes_is_read() {
        let events = "low 0\nhigh 0\nmax 8\noom 2\noom_kill 3\noom_group_kill 1\n";
        assert_eq!(count(events), 3);
        assert_eq!(count(""), 0);
    }
}
