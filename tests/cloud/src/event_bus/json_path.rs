//! JSON paths, as far as `EventBridge` supports them: names and array indices, from `$`.

use serde_json::Value;

/// The value at the path, if there is one.
pub(super) fn find<'event>(event: &'event Value, path: &str) -> Option<&'event Value> {
    let mut found = event;
    for step in steps(path)? {
        found = match step.parse::<usize>() {
            Ok(index) if found.is_array() => found.get(index)?,
            _ => found.get(&step)?,
        };
    }
    Some(found)
}

/// The steps of a path; none if it is not a path.
pub(super) fn steps(path: &str) -> Option<Vec<String>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let step;
        if let Some(dotted) = rest.strip_prefix('.') {
            let end = dotted.find(['.', '[']).unwrap_or(dotted.len());
            (step, rest) = dotted.split_at(end);
        } else {
            let (inner, after) = rest.strip_prefix('[')?.split_once(']')?;
            (step, rest) = (inner.trim_matches(['\'', '"']), after);
        }
        if step.is_empty() || step == "*" {
            return None;
        }
        steps.push(step.to_owned());
    }
    Some(steps)
}
