//! Whether the kernel killed a process because memory ran out.
//!
//! The count is in the cgroup of the job: <https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files>, or, on
//! machines of the first version, <https://docs.kernel.org/admin-guide/cgroup-v1/memory.html>.

use std::fs;
use std::path::Path;

/// The first version has this and more as no limit.
const UNLIMITED: u64 = 1 << 60;

/// How many processes of this job the kernel has killed so far because memory ran out; 0 if the machine has no count.
pub fn kills() -> u64 {
    let events = read("memory.events").or_else(|| read_first("memory.oom_control"));
    events.map_or(0, |events| count(&events))
}

/// The limit of the job's memory and the most that it has used, for a message, as far as the machine tells.
pub fn limit_and_peak() -> Option<String> {
    let bytes = |name, first| read(name).or_else(|| read_first(first))?.trim().parse::<u64>().ok();
    let limit = bytes("memory.max", "memory.limit_in_bytes").filter(|limit| *limit < UNLIMITED);
    described(limit, bytes("memory.peak", "memory.max_usage_in_bytes"))
}

fn described(limit: Option<u64>, peak: Option<u64>) -> Option<String> {
    let text = |what, bytes: Option<u64>| bytes.map(|bytes| format!("{what} {} MiB", bytes >> 20));
    let parts: Vec<_> = [text("limit", limit), text("peak", peak)].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// A file of the job's cgroup.
fn read(name: &str) -> Option<String> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    fs::read_to_string(Path::new("/sys/fs/cgroup").join(group).join(name)).ok()
}

/// A file of the job's cgroup of the first version. A container sees its own cgroup as the root.
fn read_first(name: &str) -> Option<String> {
    let root = Path::new("/sys/fs/cgroup/memory");
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = own.lines().find_map(|line| line.split_once(":memory:/").map(|(_, group)| group));
    let of_group = group.and_then(|group| fs::read_to_string(root.join(group).join(name)).ok());
    of_group.or_else(|| fs::read_to_string(root.join(name)).ok())
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
        assert_eq!(
            count("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
            2,
            "of the first version"
        );
        assert_eq!(count(""), 0);
    }

    #[test]
    fn limit_and_peak_are_named_as_far_as_they_are_known() {
        let mib = 1 << 20;
        assert_eq!(
            described(Some(512 * mib), Some(500 * mib)).as_deref(),
            Some("limit 512 MiB, peak 500 MiB")
        );
        assert_eq!(described(None, Some(3 * mib)).as_deref(), Some("peak 3 MiB"));
        assert_eq!(described(None, None), None);
    }
}
