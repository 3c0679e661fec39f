//! The platforms that Canyon calls directly.

use canyon_dispatch::ecs::EcsPlatform;
use canyon_dispatch::kubernetes::KubernetesPlatform;
pub use canyon_dispatch::kubernetes::LocalClusters;
use canyon_dispatch::{Platform, RateLimiter};
use canyon_domain::runner::RunnerType;
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
    let kubernetes_types =
        [RunnerType::Kubernetes, RunnerType::Gke, RunnerType::Eks, RunnerType::Aks];
    let mut platforms: HashMap<RunnerType, Arc<dyn Platform>> = HashMap::new();
    platforms.extend(kubernetes_types.map(|kind| (kind, Arc::new(kubernetes.clone()) as _)));
    platforms.insert(RunnerType::ServerlessEcs, Arc::new(ecs));
    platforms
}
