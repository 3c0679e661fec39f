//! The front: a proxy between the functions and the real services behind it.
//!
//! Each function has a listener of its own, so the port identifies the caller. For every call the front derives
//! the IAM actions and resources that AWS would check, and refuses a call that the role's policy does not allow,
//! in the form of the service. It records every action, and makes the faults that a test asked for. It forwards
//! other calls byte for byte, the `Host` header included: `MinIO` checks the signature over it. Calls of `DynamoDB`
//! get the access key of this cloud's database.

mod answer;
mod call;
mod cloudformation;
mod condition;
mod dynamodb;
mod fault;
mod forward;
mod kms;
mod ledger;
mod listener;
mod needs;
mod other;
mod policy;
mod put_events;
mod s3;
mod scope;

pub use fault::{Fault, FaultRule};
pub use ledger::{Outcome, Record};
pub use policy::Policy;
pub use put_events::{PutEntry, PutEventsHook};

use crate::chance::{Chance, lock};
use fault::Faults;
use forward::Forwarder;
use ledger::Ledger;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

/// The stack's account: facts that policies use and the real services do not know.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// The account id of twelve digits.
    pub id: String,
    /// Its region.
    pub region: String,
    /// The ARN of a stream, by the name of its table: `DynamoDB` Local gives streams names of its own.
    pub streams: BTreeMap<String, String>,
    /// The ARN of a key, by its alias (`alias/...`).
    pub key_aliases: BTreeMap<String, String>,
}

/// The real services behind the front, as `http://host:port`.
#[derive(Clone, Debug)]
pub struct Upstreams {
    /// `DynamoDB` Local, for tables and streams.
    pub dynamodb: String,
    /// The access key of this cloud's database in it. `DynamoDB` Local keeps a database for each access key, and a
    /// read of a stream takes longer with each record of any stream of the database. None leaves a call unchanged.
    pub database: Option<String>,
    /// `MinIO`.
    pub s3: String,
    /// moto, for everything else.
    pub other: String,
}

/// A running front. Dropping its last clone ends it.
#[derive(Clone)]
pub struct Front {
    shared: Arc<Shared>,
    listeners: Arc<Listeners>,
}

struct Shared {
    account: Account,
    forwarder: Forwarder,
    ledger: Ledger,
    faults: Faults,
    chance: Chance,
    hook: Mutex<Option<PutEventsHook>>,
    policies: Mutex<BTreeMap<String, Arc<Policy>>>,
}

#[derive(Default)]
struct Listeners(Mutex<Vec<AbortHandle>>);

impl Drop for Listeners {
    fn drop(&mut self) {
        lock(&self.0).iter().for_each(AbortHandle::abort);
    }
}

impl Front {
    /// A front without callers yet.
    pub fn new(account: Account, upstreams: Upstreams, seed: u64) -> Self {
        let shared = Shared {
            account,
            forwarder: Forwarder::new(upstreams),
            ledger: Ledger::default(),
            faults: Faults::default(),
            chance: Chance::new(seed),
            hook: Mutex::default(),
            policies: Mutex::default(),
        };
        Self { shared: Arc::new(shared), listeners: Arc::default() }
    }

    /// Opens a listener for this function, whose role has this policy. Returns its address,
    /// `http://127.0.0.1:port`.
    ///
    /// # Errors
    /// If no port is free.
    pub async fn open(&self, function: &str, policy: Policy) -> Result<String, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.map_err(|error| format!("no listener for {function}: {error}"))?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let policy = Arc::new(policy);
        lock(&self.shared.policies).insert(function.to_owned(), policy.clone());
        let caller = Arc::new(listener::Caller { function: function.to_owned(), policy });
        let task = tokio::spawn(listener::accept(listener, caller, self.shared.clone()));
        lock(&self.listeners.0).push(task.abort_handle());
        Ok(format!("http://{address}"))
    }

    /// Checks and records an action that AWS does in the role's name. For example, an event source mapping sends
    /// to its on-failure queue with the function's role.
    pub fn authorize(&self, function: &str, action: &str, resource: &str) -> bool {
        let need = needs::Need::new(action, resource);
        let policy = lock(&self.shared.policies).get(function).cloned();
        let granted = policy.is_some_and(|policy| policy.allows(&need));
        let outcome = if granted { Outcome::Allowed } else { Outcome::Denied };
        self.shared.ledger.write(function, action, std::slice::from_ref(&need), &outcome);
        granted
    }

    /// Registers a hook that is called for each event that the bus accepts.
    pub fn on_put_events(&self, hook: PutEventsHook) {
        *lock(&self.shared.hook) = Some(hook);
    }

    /// Applies these faults from now on, and no others.
    pub fn set_faults(&self, rules: Vec<FaultRule>) {
        self.shared.faults.set(rules);
    }

    /// Applies no faults from now on.
    pub fn clear_faults(&self) {
        self.shared.faults.set(Vec::new());
    }

    /// How often each fault was made so far, by its name.
    pub fn faults_injected(&self) -> BTreeMap<&'static str, u64> {
        self.shared.faults.counts()
    }

    /// Every action so far, oldest first.
    pub fn records(&self) -> Vec<Record> {
        self.shared.ledger.records()
    }

    /// The actions that a function was allowed so far.
    pub fn used_actions(&self, function: &str) -> BTreeSet<String> {
        self.shared.ledger.used_actions(function)
    }

    /// The refused actions so far.
    pub fn denied(&self) -> Vec<Record> {
        let mut records = self.shared.ledger.records();
        records.retain(|record| record.outcome == Outcome::Denied);
        records
    }

    /// Clears all records and counts.
    pub fn forget(&self) {
        self.shared.ledger.clear();
        self.shared.faults.forget();
    }
}

#[cfg(test)]
mod tests;
