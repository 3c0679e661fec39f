//! The images that a runner allows for container jobs.

/// The registry and the folder of an image that names neither.
const DEFAULT_REGISTRY: &str = "docker.io";
const DEFAULT_FOLDER: &str = "library";

/// Whether one of the patterns allows `image`. In a pattern, `*` stands for any text without `/`, and `**` for any text.
///
/// ```
/// use canyon_domain::runner::allowed_images::is_allowed;
///
/// let patterns = ["ghcr.io/acme/*".to_owned(), "alpine:3.*".to_owned()];
/// assert!(is_allowed("ghcr.io/acme/bucket:1.1.0", &patterns));
/// assert!(is_allowed("docker.io/library/alpine:3.22", &patterns));
/// assert!(!is_allowed("ghcr.io/acme/team/bucket:1.1.0", &patterns));
/// assert!(!is_allowed("ghcr.io/acme.example.com/bucket", &patterns));
/// ```
pub fn is_allowed(image: &str, patterns: &[String]) -> bool {
    let image = with_registry(image);
    patterns.iter().any(|pattern| matches(&with_registry(pattern), &image))
}

/// The image with the registry and the folder that engines add.
fn with_registry(image: &str) -> String {
    let is_host =
        |first: &str| first.contains(['.', ':']) || first == "localhost" || first.contains("**");
    match image.split_once('/') {
        Some((first, _)) if is_host(first) => image.to_owned(),
        Some(_) => format!("{DEFAULT_REGISTRY}/{image}"),
        None if image.starts_with("**") => image.to_owned(),
        None => format!("{DEFAULT_REGISTRY}/{DEFAULT_FOLDER}/{image}"),
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    let Some((fixed, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(after) = text.strip_prefix(fixed) else { return false };
    let (rest, crosses) = match rest.strip_prefix('*') {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let ends = after.char_indices().map(|(at, _)| at).chain([after.len()]);
    let mut ends = ends.take_while(|end| crosses || !after[..*end].contains('/'));
    ends.any(|end| matches(rest, &after[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stays_within_a_part_of_the_path_and_two_do_not() {
        for (pattern, image, allowed) in [
            ("ghcr.io/acme/*", "ghcr.io/acme/app", true),
            ("ghcr.io/acme/*", "ghcr.io/acme/app@sha256:ab", true),
            ("ghcr.io/acme/*", "ghcr.io/acme/a/b", false),
            ("ghcr.io/acme/**", "ghcr.io/acme/a/b:1", true),
            ("ghcr.io/*/app:1.*", "ghcr.io/acme/app:1.2.3", true),
            ("ghcr.io/*/app:1.*", "ghcr.io/acme/app:2", false),
            ("ghcr.io/acme/app", "ghcr.io/acme/app:1", false),
            ("*", "alpine:3", true),
            ("*", "acme/app", false),
            ("**", "registry.example.com:5000/a/b:1", true),
            ("acme/*", "docker.io/acme/app", true),
            ("acme/*", "evil.example.com/acme/app", false),
            ("localhost/*", "localhost/app:test", true),
        ] {
            assert_eq!(is_allowed(image, &[pattern.to_owned()]), allowed, "{pattern} {image}");
        }
        assert!(!is_allowed("alpine", &[]));
    }

    #[test]
    fn a_pattern_with_many_stars_is_matched_within_the_limits_of_a_field() {
        let image = format!("ghcr.io/{}", "a".repeat(500));
        assert!(!is_allowed(&image, &["ghcr.io/*a*a*b".to_owned()]));
    }
}
