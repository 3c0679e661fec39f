//! The meaning of errors of engines and registries, and what to change.

use super::engine::{self, Engine};
use super::engine_user::EngineUser;
use super::image::ImageOf;
use crate::{DispatchError, JobRef, Launch};
use bollard::errors::Error;
use canyon_domain::causes::Causes;
use canyon_domain::failure::FailureClass;
use jiff::{SignedDuration, Timestamp};
use secrecy::ExposeSecret as _;
use std::time::Duration;

/// How long after the launch a registry may be unreachable before that ends the attempt.
const REGISTRY_GRACE: SignedDuration = SignedDuration::from_secs(30);
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// The pause after a registry's rate limit, which counts pulls by the hour.
const THROTTLE_PAUSE: Duration = Duration::from_secs(30);

/// The attempt that needs the image.
pub(super) struct PullRequest<'a> {
    pub(super) user: EngineUser,
    pub(super) of: ImageOf,
    pub(super) job: &'a JobRef,
    pub(super) launched_at: Timestamp,
    pub(super) now: Timestamp,
    /// Whether the settings have credentials.
    pub(super) has_credentials: bool,
}

/// The error of a failed pull, with the registry's message.
pub(super) fn of_pull(wanted: &PullRequest<'_>, image: &str, words: &str) -> DispatchError {
    let has = |signs: &[&str]| {
        let words = words.to_lowercase();
        signs.iter().any(|sign| words.contains(sign))
    };
    let refused =
        |what: &str| DispatchError::refused(FailureClass::ImagePull, format!("{what}: {words}"));
    let check_image = match wanted.of {
        ImageOf::Runner => wanted.user.check_image(),
        ImageOf::Job => "check `container.image`",
    };
    if has(&["toomanyrequests", "too many requests"]) {
        let message = format!("the registry limits the rate of pulls of image `{image}`: {words}");
        return DispatchError::later(FailureClass::Throttled, message, THROTTLE_PAUSE);
    }
    if has(&["no space left"]) {
        let message = format!("the engine's disk has no room for image `{image}`: {words}");
        return DispatchError::refused(FailureClass::Capacity, message);
    }
    if has(&["manifest unknown", "manifest for", "no matching manifest"]) {
        return refused(&format!(
            "the registry has no such tag, digest or architecture of image `{image}`; {check_image}"
        ));
    }
    // Docker Hub answers this both for private images and for images that do not exist.
    if has(&["unauthorized", "authentication required", "no basic auth", "denied", "403 forbidden"])
    {
        let hint = wanted.user.registry_access(wanted.has_credentials);
        return refused(&format!(
            "the registry does not let the engine pull image `{image}`; {hint}"
        ));
    }
    if has(&["name unknown", "not known to registry", "not found", "does not exist"]) {
        return refused(&format!("the registry has no image `{image}`; {check_image}"));
    }
    if has(&["invalid reference"]) {
        return refused(&format!("`{image}` is not the name of an image; {check_image}"));
    }
    let what = format!("the engine cannot pull image `{image}`");
    let may_retry = wanted.now < wanted.launched_at + REGISTRY_GRACE;
    if may_retry {
        let message = format!("{what}: {words}");
        return DispatchError::later(FailureClass::ImagePull, message, RETRY_PAUSE);
    }
    refused(&what)
}

/// The error if the engine cannot say whether it has the image. Nothing was started yet.
pub(super) fn of_image(engine: &Engine, image: &str, error: &Error) -> DispatchError {
    match engine::status_and_message(error) {
        Some((400, words)) => {
            let check_image = engine.user.check_image();
            let message = format!("`{image}` is not the name of an image; {check_image}: {words}");
            DispatchError::refused(FailureClass::ImagePull, message)
        }
        Some((_, words)) => {
            let message = format!("the engine cannot look for image `{image}`: {words}");
            DispatchError::later(FailureClass::ImagePull, message, RETRY_PAUSE)
        }
        None => engine.unreachable(error),
    }
}

pub(super) fn not_on_engine(image: &str) -> DispatchError {
    let message = format!(
        "the engine has no image `{image}`, and `local_image` forbids pulling it; load it on the engine, \
         unset `local_image`, or change `image`"
    );
    DispatchError::refused(FailureClass::ImagePull, message)
}

/// The error of a container that could not be created or started. A request that the engine refuses
/// has had no effect.
pub(super) fn of_start(engine: &Engine, error: &Error) -> DispatchError {
    let Some((status, words)) = engine::status_and_message(error) else {
        if engine::was_not_sent(error) {
            return engine.unreachable(error);
        }
        return DispatchError::unknown(FailureClass::Lost, engine.no_answer(error));
    };
    let refused = |class, what: &str| DispatchError::refused(class, format!("{what}: {words}"));
    let lower = words.to_lowercase();
    if status == 404 && lower.contains("no such image") {
        // The image existed a moment ago.
        return DispatchError::later(FailureClass::ImagePull, words, RETRY_PAUSE);
    }
    if status == 404 && lower.contains("no such container") {
        return DispatchError::unknown(
            FailureClass::Lost,
            format!("the container was removed: {words}"),
        );
    }
    if lower.contains("network") && (status == 404 || lower.contains("not found")) {
        return refused(FailureClass::Config, "the engine has no such network; check `network`");
    }
    if lower.contains("bind source path") || lower.contains("invalid mount") {
        return refused(
            FailureClass::Config,
            "the engine cannot bind the folder; check `bind_path`",
        );
    }
    if lower.contains("no space left") || lower.contains("cannot allocate memory") {
        return refused(FailureClass::Capacity, "the engine has no room for the container");
    }
    if lower.contains("extra host") || lower.contains("add-host") {
        return refused(FailureClass::Config, "the engine refuses the hosts; check `extra_hosts`");
    }
    if status >= 500 && !lower.contains("oci runtime") && !lower.contains("runc") {
        // The engine itself fails, for example while it shuts down.
        return DispatchError::unknown(FailureClass::Lost, format!("the engine failed: {words}"));
    }
    refused(FailureClass::Config, "the engine refuses the container")
}

/// The engine may quote the request that it refuses.
pub(super) fn without_claim_code(mut error: DispatchError, launch: &Launch) -> DispatchError {
    if let Some(code) = launch.environment.get("CANYON_CLAIM_CODE") {
        error.failure.message = error.failure.message.replace(code.expose_secret(), "(claim code)");
    }
    error
}

/// The error of a request about a container that may exist.
pub(super) fn of_request(engine: &Engine, what: &str, error: &Error) -> DispatchError {
    let message = match engine::status_and_message(error) {
        Some((_, words)) => format!("cannot {what}: {words}"),
        None => engine.no_answer(error),
    };
    DispatchError::unknown(FailureClass::Lost, message)
}

/// The same message for the check of a runner.
pub(super) fn message_of(engine: &Engine, error: &Error) -> String {
    match engine::status_and_message(error) {
        Some((_, words)) => words.to_owned(),
        None if engine::was_not_sent(error) => engine.no_answer(error),
        None => Causes(error).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OnFailure;
    use canyon_domain::ids::DeploymentId;

    #[test]
    fn a_registrys_refusal_ends_the_attempt_and_its_silence_is_retried() {
        let job =
            JobRef { deployment: DeploymentId(uuid::Uuid::from_u128(1)), attempt: 1, handle: None };
        let launched_at = Timestamp::UNIX_EPOCH;
        let pull_error = |words: &str, seconds: i64| {
            let now = launched_at + SignedDuration::from_secs(seconds);
            of_pull(
                &PullRequest {
                    of: ImageOf::Runner,
                    user: EngineUser::Agent,
                    job: &job,
                    launched_at,
                    now,
                    has_credentials: false,
                },
                "a:1",
                words,
            )
        };
        // Messages of Docker 20.10 to 28 and of registries.
        let ends = [
            ("manifest for a:1 not found: manifest unknown: manifest unknown", "no such tag"),
            ("no matching manifest for linux/arm64/v8 in the manifest list entries", "no such tag"),
            ("unauthorized: authentication required", "set `registry_username`"),
            (
                "Head \"https://r.example/v2/a/manifests/1\": no basic auth credentials",
                "set `registry_username`",
            ),
            (
                "pull access denied for a, repository does not exist or may require 'docker login'",
                "set `registry_username`",
            ),
            ("name unknown: repository name not known to registry", "no image `a:1`"),
            ("invalid reference format", "not the name"),
        ];
        for (words, expected) in ends {
            let error = pull_error(words, 0);
            assert_eq!(
                (error.failure.class, error.on_failure),
                (FailureClass::ImagePull, OnFailure::EndAttempt)
            );
            assert!(
                error.to_string().contains(expected) && error.to_string().contains(words),
                "{error}"
            );
        }
        let silent =
            "Get \"https://r.example/v2/\": dial tcp 192.0.2.1:443: connect: connection refused";
        assert!(matches!(pull_error(silent, 29).on_failure, OnFailure::RetryAfter(_)));
        assert_eq!(pull_error(silent, 31).on_failure, OnFailure::EndAttempt);
        assert!(matches!(
            pull_error("toomanyrequests: slow down", 900).on_failure,
            OnFailure::RetryAfter(_)
        ));
    }
}
