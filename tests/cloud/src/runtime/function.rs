//! A function: accepts invocations, and starts processes for them.

use super::asynchronous::Queue;
use super::config::FunctionConfig;
use super::environment::Environment;
use super::fault::{Faults, Kill};
use super::invocation::{Invocation, InvokeError, InvokeResult, SYNCHRONOUS_LIMIT};
use super::pool::{Permit, Pool};
use super::report::{self, Report};
use super::runtime_api::Delivery;
use super::variables;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;
use uuid::Uuid;

/// A Lambda function. Clones are the same function; dropping the last one ends its processes.
#[derive(Clone)]
pub struct Function {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) config: FunctionConfig,
    pub(super) queue: Queue,
    pool: Arc<Pool>,
    faults: Faults,
    reports: Mutex<Vec<Report>>,
    count: AtomicU64,
}

impl Function {
    /// A function without any process yet.
    ///
    /// # Panics
    /// If Lambda would refuse the configuration, or the program does not exist.
    pub fn new(config: FunctionConfig) -> Self {
        variables::check(&config.environment);
        let FunctionConfig { name, program, .. } = &config;
        assert!(program.is_file(), "the function {name} has no program `{}`", program.display());
        let pool = Pool::new(config.max_concurrency, config.environment.clone());
        let inner = Inner {
            queue: Queue::default(),
            pool,
            faults: Faults::default(),
            reports: Mutex::default(),
            count: AtomicU64::new(0),
            config,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Invokes it and waits for the answer (`RequestResponse`). If the caller goes away, the invocation
    /// continues, as on Lambda.
    ///
    /// # Errors
    /// If the function failed, or did not run.
    pub async fn invoke(&self, payload: impl Into<Bytes>) -> InvokeResult {
        let payload = payload.into();
        if payload.len() > SYNCHRONOUS_LIMIT {
            return Err(InvokeError::RequestEntityTooLarge { limit: SYNCHRONOUS_LIMIT });
        }
        self.attempt(Uuid::new_v4().to_string(), payload).await
    }

    /// One attempt, under a request id that earlier attempts may have had.
    pub(super) async fn attempt(&self, request_id: String, payload: Bytes) -> InvokeResult {
        let Some((permit, warm)) = self.inner.pool.take() else {
            return Err(InvokeError::Throttled);
        };
        let number = self.inner.count.fetch_add(1, Ordering::Relaxed) + 1;
        let invocation = Invocation { request_id, payload, number, cold: warm.is_none() };
        let task = tokio::spawn(run(self.inner.clone(), permit, warm, invocation));
        task.await.unwrap_or_else(|error| Err(InvokeError::Crashed { how: error.to_string() }))
    }

    /// Calls `hook` at the start of each invocation to learn whether its process is to be killed.
    pub fn kill_during<Hook>(&self, hook: Hook)
    where
        Hook: Fn(&Invocation) -> Option<Kill> + Send + Sync + 'static,
    {
        self.inner.faults.set(Some(Arc::new(hook)));
    }

    /// Ends [`Self::kill_during`].
    pub fn spare(&self) {
        self.inner.faults.set(None);
    }

    /// Kills every process with `kill -9`, also busy ones. The next invocations are cold.
    pub async fn restart_all(&self) {
        for environment in self.inner.pool.kill() {
            environment.kill().await;
        }
    }

    /// Gives the function other variables, as `UpdateFunctionConfiguration` does: busy processes finish
    /// their work, and no process is used again.
    ///
    /// # Panics
    /// If Lambda would refuse them.
    pub async fn update(&self, environment: BTreeMap<String, String>) {
        variables::check(&environment);
        for environment in self.inner.pool.renew(Some(environment)) {
            environment.kill().await;
        }
    }

    /// Sets how many invocations may run at once from now on. 0 throttles all.
    pub fn limit_concurrency(&self, limit: usize) {
        self.inner.pool.limit(limit);
    }

    /// How many invocations run.
    pub fn busy(&self) -> usize {
        self.inner.pool.busy()
    }

    /// The ids of the idle processes.
    pub fn warm_processes(&self) -> Vec<i32> {
        self.inner.pool.idle()
    }

    /// The report of each invocation, in the order in which they ended.
    pub fn reports(&self) -> Vec<Report> {
        self.inner.reports().clone()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.config.name
    }

    /// Its ARN.
    pub fn arn(&self) -> String {
        self.inner.config.arn()
    }

    /// Its initial configuration.
    pub fn config(&self) -> &FunctionConfig {
        &self.inner.config
    }

    /// The file with the output of all its processes.
    pub fn log_path(&self) -> PathBuf {
        self.inner.config.log_path()
    }

    /// The output of all its processes so far.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.log_path()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.inner
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Function({})", self.name())
    }
}

impl Inner {
    fn reports(&self) -> std::sync::MutexGuard<'_, Vec<Report>> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn run(
    function: Arc<Inner>,
    permit: Permit,
    warm: Option<Environment>,
    invocation: Invocation,
) -> InvokeResult {
    let timeout = function.config.timeout;
    let (mut environment, init, deadline) = match warm {
        Some(environment) => (environment, None, Instant::now() + timeout),
        None => match cold_start(&function.config, &permit).await {
            Ok((environment, init, deadline)) => (environment, Some(init), deadline),
            Err(error) => {
                function.reports().push(failed_start(&invocation, &error));
                return Err(error);
            }
        },
    };
    let kill = function.faults.for_invocation(&invocation);
    let (pid, before, began) =
        (environment.pid(), report::cpu_time(environment.pid()), Instant::now());
    let delivery = delivery(&function.config, &invocation, deadline);
    let result = environment.invoke(delivery, deadline, timeout, kill).await;
    let duration = began.elapsed();
    let cpu = before.zip(report::cpu_time(pid)).and_then(|(before, now)| now.checked_sub(before));
    function.reports().push(Report {
        request_id: invocation.request_id,
        number: invocation.number,
        init,
        duration,
        cpu,
        max_memory_kib: report::max_memory(pid),
        error: result.as_ref().err().map(ToString::to_string),
    });
    permit.give_back(environment);
    result
}

/// A started process, its start time, and the deadline of the invocation.
///
/// If the Init phase fails or lasts too long, "Lambda retries the Init phase at the time of the
/// first function invocation with the configured function timeout": then the start counts as part
/// of the invocation.
async fn cold_start(
    config: &FunctionConfig,
    permit: &Permit,
) -> Result<(Environment, Duration, Instant), InvokeError> {
    let no_start = |error: std::io::Error| InvokeError::Crashed {
        how: format!("with error: cannot start `{}`: {error}", config.program.display()),
    };
    let start = || Environment::start(config, &permit.variables, permit.alive.clone());
    let mut environment = start().await.map_err(no_start)?;
    if let Ok(init) = environment.init(Instant::now() + config.init_timeout).await {
        return Ok((environment, init, Instant::now() + config.timeout));
    }
    environment.kill().await;
    let deadline = Instant::now() + config.timeout;
    let mut environment = start().await.map_err(no_start)?;
    match environment.init(deadline).await {
        Ok(init) => Ok((environment, init, deadline)),
        Err(error) => {
            environment.kill().await;
            Err(error.unwrap_or(InvokeError::Timeout { after: config.timeout }))
        }
    }
}

fn delivery(config: &FunctionConfig, invocation: &Invocation, deadline: Instant) -> Delivery {
    let left = deadline.saturating_duration_since(Instant::now());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let unique = Uuid::new_v4().simple().to_string();
    Delivery {
        request_id: invocation.request_id.clone(),
        deadline_ms: (now + left).as_millis(),
        function_arn: config.arn(),
        // <https://docs.aws.amazon.com/xray/latest/devguide/xray-concepts.html#xray-concepts-tracingheader>
        trace_id: format!(
            "Root=1-{:08x}-{};Parent={};Sampled=0",
            now.as_secs(),
            &unique[..24],
            &unique[16..]
        ),
        payload: invocation.payload.clone(),
    }
}

fn failed_start(invocation: &Invocation, error: &InvokeError) -> Report {
    Report {
        request_id: invocation.request_id.clone(),
        number: invocation.number,
        init: None,
        duration: Duration::ZERO,
        cpu: None,
        max_memory_kib: None,
        error: Some(error.to_string()),
    }
}
