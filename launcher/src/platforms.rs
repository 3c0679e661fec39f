//! The platforms that Canyon calls directly.

use canyon_dispatch::ecs::EcsPlatform;
use canyon_dispatch::kubernetes::KubernetesPlatform;
pub use canyon_dispatch::kubernetes::LocalClusters;
use canyon_dispatch::{Platform, RateLimiter};
use canyon_domain::runner::{JobPlace, LaunchedBy, RunnerType};
use canyon_identity::federation::Federation;
use std::collections::HashMap;
use std::sync::Arc;

/// The platforms for Kubernetes and ECS, which sign in with the tokens of `federation`. `image` is
/// the runner image of jobs whose runner names none. `local` allows or refuses clusters on this
/// machine.
pub fn direct(
    federation: &Arc<Federation>,
    limiter: Arc<dyn RateLimiter>,
    image: Option<&str>,
    local: LocalClusters,
) -> HashMap<RunnerType, Arc<dyn Platform>> {
    let image = image.map(str::to_owned);
    let kubernetes = Arc::new(KubernetesPlatform::new(federation.clone(), image.clone(), local));
    let ecs = Arc::new(EcsPlatform::new(federation.clone(), limiter, image));
    let by_canyon = |kind: &&RunnerType| kind.launched_by() == LaunchedBy::Canyon;
    let platform = |kind: &RunnerType| -> Option<Arc<dyn Platform>> {
        match kind.job_place() {
            JobPlace::Cluster => Some(Arc::new(kubernetes.clone())),
            JobPlace::Ecs => Some(Arc::new(ecs.clone())),
            // Only `canyon local` has a Docker engine; `agents::platforms` has the processes on its machine.
            JobPlace::Docker | JobPlace::Machine => None,
        }
    };
    let kinds = RunnerType::ALL.iter().filter(by_canyon);
    kinds.filter_map(|kind| Some((*kind, platform(kind)?))).collect()
}
