//! The image of jobs: whether the engine has it, and pulling it if not.

use super::names::container_name;
use super::refusal::{self, PullRequest};
use super::{DockerDispatcher, engine::is_missing};
use crate::{DispatchError, JobRef, Launch};
use bollard::Docker;
use bollard::auth::DockerCredentials;
use bollard::models::{CreateImageInfo, ImageInspect};
use bollard::query_parameters::CreateImageOptionsBuilder;
use canyon_domain::causes::Causes;
use canyon_domain::failure::FailureClass;
use canyon_domain::ports::Clock as _;
use canyon_identity::system::System;
use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use secrecy::{ExposeSecret as _, SecretString};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long a start waits for a pull before it answers that the pull continues.
const PULL_WAIT: Duration = Duration::from_secs(3);
/// When a start is retried while a pull runs.
const PULL_RETRY_PAUSE: Duration = Duration::from_secs(2);
/// How long the result of a pull is reused.
const RESULT_LIFETIME: Duration = Duration::from_secs(30);
/// Limit of the registry's first answer; the engine's own limit is shorter.
const REGISTRY_TIMEOUT: Duration = Duration::from_mins(2);
/// Limit between two messages of the engine about a pull. It reports each chunk that it has read or
/// unpacked.
const STALL_TIMEOUT: Duration = Duration::from_mins(5);

/// Whose image it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImageOf {
    /// The runner's: a module runs in it, and the runner program comes from it.
    Runner,
    /// A container job's own.
    Job,
}

/// An image that the engine has.
#[derive(Clone, Debug)]
pub(super) struct FoundImage {
    /// Its name. A container job's image has the digest, if the registry has told it: the tag may move.
    pub(super) name: String,
    /// Its user.
    pub(super) user: String,
}

impl FoundImage {
    pub(super) fn new(name: &str, of: ImageOf, found: ImageInspect) -> Self {
        let digests = found.repo_digests.unwrap_or_default();
        // Engines leave out the registry and the folder of Docker Hub's official images.
        let repository = |name: &str| {
            let name = split(name).0.trim_start_matches("docker.io/");
            name.trim_start_matches("library/").to_owned()
        };
        let wanted = repository(name);
        let of_registry = |known: &String| {
            let (found, digest) = known.split_once('@')?;
            (repository(found) == wanted).then(|| digest.to_owned())
        };
        let digest = digests.iter().find_map(of_registry);
        let name = match digest.filter(|_| of == ImageOf::Job && !name.contains('@')) {
            Some(digest) => format!("{name}@{digest}"),
            None => name.to_owned(),
        };
        Self { name, user: found.config.and_then(|config| config.user).unwrap_or_default() }
    }
}

/// The progress of a pull, for all starts that wait for it.
#[derive(Clone, Debug, Default)]
struct Progress {
    words: String,
    end: Option<(Instant, Result<(), String>)>,
}

/// The pulls of this process, one for each image, and the jobs that wait for them.
#[derive(Default)]
pub(super) struct Pulls {
    running: Mutex<HashMap<String, watch::Receiver<Progress>>>,
    waiting: Mutex<HashMap<String, String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DockerDispatcher {
    /// The credentials for the registry of `image`, only if that is also the registry of the
    /// setting `image`. Otherwise the author of a runner could learn the password by naming an
    /// image of their own registry.
    pub(super) fn credentials(&self, image: &str) -> Option<&(String, SecretString)> {
        let settings = &self.platform.settings;
        let own = settings.image.as_deref()?;
        settings.credentials.as_ref().filter(|_| registry_of(own) == registry_of(image))
    }

    pub(super) fn pull_request<'a>(
        &self,
        job: &'a JobRef,
        image: &str,
        of: ImageOf,
        launched_at: Timestamp,
    ) -> PullRequest<'a> {
        let has_credentials = self.credentials(image).is_some();
        let user = self.platform.settings.user;
        PullRequest { user, of, job, launched_at, now: System.now(), has_credentials }
    }

    /// The image. Pulls it if the engine does not have it; the runner's image only if the settings allow that.
    pub(super) async fn image(
        &self,
        docker: &Docker,
        image: &str,
        of: ImageOf,
        launch: &Launch,
    ) -> Result<FoundImage, DispatchError> {
        let platform = &self.platform;
        let mut may_pull = of == ImageOf::Job || !platform.settings.local_image;
        loop {
            match docker.inspect_image(image).await {
                Ok(found) => {
                    platform.pulls.stop_waiting(&launch.job);
                    return Ok(FoundImage::new(image, of, found));
                }
                Err(error) if is_missing(&error) && may_pull => {
                    may_pull = false;
                    let wanted = self.pull_request(&launch.job, image, of, launch.launched_at);
                    let credentials = self.credentials(image);
                    platform.pulls.pull(docker, image, credentials, &wanted).await?;
                }
                Err(error) if is_missing(&error) => {
                    return Err(refusal::not_on_engine(image));
                }
                Err(error) => {
                    platform.engine.forget(&error).await;
                    return Err(refusal::of_image(&platform.engine, image, &error));
                }
            }
        }
    }
}

impl Pulls {
    /// Pulls `image`, or joins a running pull. Answers within [`PULL_WAIT`]: a pull that takes
    /// longer continues, and the caller retries.
    pub(super) async fn pull(
        self: &Arc<Self>,
        docker: &Docker,
        image: &str,
        credentials: Option<&(String, SecretString)>,
        wanted: &refusal::PullRequest<'_>,
    ) -> Result<(), DispatchError> {
        let mut progress = self.join(docker, image, credentials);
        let seen = progress.clone();
        let ended =
            tokio::time::timeout(PULL_WAIT, progress.wait_for(|now| now.end.is_some())).await;
        let ended = match ended {
            Ok(Ok(now)) => now.end.clone(),
            // The pull's task is gone: the runtime shuts down.
            Ok(Err(_)) => None,
            Err(_) => {
                let words = seen.borrow().words.clone();
                lock(&self.waiting).insert(container_name(wanted.job), image.to_owned());
                return Err(DispatchError::later(FailureClass::ImagePull, words, PULL_RETRY_PAUSE));
            }
        };
        lock(&self.running).remove(image);
        self.stop_waiting(wanted.job);
        match ended {
            Some((_, Ok(()))) => Ok(()),
            Some((_, Err(words))) => Err(refusal::of_pull(wanted, image, &words)),
            None => Err(DispatchError::later(
                FailureClass::ImagePull,
                "the pull was interrupted",
                PULL_RETRY_PAUSE,
            )),
        }
    }

    /// The progress of the pull that `job` waits for.
    pub(super) fn progress_for(&self, job: &JobRef) -> Option<String> {
        let image = lock(&self.waiting).get(&container_name(job)).cloned()?;
        let words = lock(&self.running).get(&image).map(|progress| progress.borrow().words.clone());
        Some(words.unwrap_or_else(|| format!("the engine pulls image `{image}`")))
    }

    /// Notes that the job waits for no pull any more.
    pub(super) fn stop_waiting(&self, job: &JobRef) {
        lock(&self.waiting).remove(&container_name(job));
    }

    fn join(
        self: &Arc<Self>,
        docker: &Docker,
        image: &str,
        credentials: Option<&(String, SecretString)>,
    ) -> watch::Receiver<Progress> {
        let mut running = lock(&self.running);
        let is_stale = |progress: &watch::Receiver<Progress>| {
            progress.borrow().end.as_ref().is_some_and(|(at, _)| at.elapsed() > RESULT_LIFETIME)
        };
        if let Some(progress) = running.get(image).filter(|progress| !is_stale(progress)) {
            return progress.clone();
        }
        let words = format!("the engine pulls image `{image}`");
        let (sender, progress) = watch::channel(Progress { words, end: None });
        running.insert(image.to_owned(), progress.clone());
        let docker = docker.clone().with_timeout(REGISTRY_TIMEOUT);
        let credentials = credentials.map(|pair| of_registry(image, pair));
        let image = image.to_owned();
        tokio::spawn(async move {
            let end = follow(&docker, &image, credentials, &sender).await;
            sender.send_modify(|progress| progress.end = Some((Instant::now(), end)));
        });
        progress
    }
}

async fn follow(
    docker: &Docker,
    image: &str,
    credentials: Option<DockerCredentials>,
    sender: &watch::Sender<Progress>,
) -> Result<(), String> {
    let (name, tag) = split(image);
    let options = CreateImageOptionsBuilder::default().from_image(name).tag(tag).build();
    let mut lines = docker.create_image(Some(options), None, credentials);
    let mut layers = HashMap::new();
    while let Some(line) = next_of(&mut lines, STALL_TIMEOUT).await? {
        let line = line.map_err(|error| match super::engine::status_and_message(&error) {
            Some((_, words)) => words.to_owned(),
            None => Causes(&error).to_string(),
        })?;
        if let Some(words) = progress_of(image, line, &mut layers) {
            sender.send_modify(|progress| progress.words = words);
        }
    }
    Ok(())
}

/// The next item of a pull. A stalled pull is cancelled; closing its connection also ends the
/// engine's part, so that a retry can begin again.
async fn next_of<T>(
    lines: &mut (impl Stream<Item = T> + Unpin),
    silence: Duration,
) -> Result<Option<T>, String> {
    tokio::time::timeout(silence, lines.next()).await.map_err(|_| {
        format!("the pull stalled: the engine has reported nothing for {} s", silence.as_secs())
    })
}

/// How far a pull is, for people.
fn progress_of(
    image: &str,
    line: CreateImageInfo,
    layers: &mut HashMap<String, (i64, i64)>,
) -> Option<String> {
    let detail = line.progress_detail?;
    if line.status.as_deref() != Some("Downloading") {
        return None;
    }
    layers.insert(line.id?, (detail.current?, detail.total?));
    let (current, total) = layers.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let mib = |bytes: i64| bytes / (1024 * 1024);
    Some(format!("the engine pulls image `{image}`: {} of {} MiB", mib(current), mib(total)))
}

/// Splits an image into its name and its tag or digest. Without either, the engine would pull every
/// tag.
fn split(image: &str) -> (&str, &str) {
    if let Some((name, digest)) = image.split_once('@') {
        return (name, digest);
    }
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (image, "latest"),
    }
}

/// The registry of an image; `None` for the engine's default registry.
pub(super) fn registry_of(image: &str) -> Option<&str> {
    let (first, _) = image.split_once('/')?;
    (first.contains(['.', ':']) || first == "localhost").then_some(first)
}

/// The credentials in the form that the engine expects, for the registry of the image.
pub(super) fn of_registry(image: &str, pair: &(String, SecretString)) -> DockerCredentials {
    DockerCredentials {
        username: Some(pair.0.clone()),
        password: Some(pair.1.expose_secret().to_owned()),
        serveraddress: registry_of(image).map(str::to_owned),
        ..DockerCredentials::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;

    #[tokio::test]
    async fn a_stalled_pull_ends_with_an_error() {
        let silence = Duration::ZERO;
        assert_eq!(next_of(&mut stream::iter([1]), silence).await, Ok(Some(1)));
        assert_eq!(next_of(&mut stream::iter([0; 0]), silence).await, Ok(None));
        let words = next_of(&mut stream::pending::<u8>(), silence).await.unwrap_err();
        assert!(words.contains("stalled"), "{words}");
    }

    #[test]
    fn an_image_is_never_pulled_with_all_its_tags() {
        let cases = [
            ("a", ("a", "latest")),
            ("a:1", ("a", "1")),
            ("registry.example:5000/a", ("registry.example:5000/a", "latest")),
            ("registry.example:5000/a:1", ("registry.example:5000/a", "1")),
            ("a/b@sha256:00", ("a/b", "sha256:00")),
        ];
        for (image, expected) in cases {
            assert_eq!(split(image), expected);
        }
    }
}
