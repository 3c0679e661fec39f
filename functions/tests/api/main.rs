//! The API over HTTP: the router on a loopback port, over a real (embedded) table.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic as the tests do")]

mod access;
mod agent_access;
mod agent_attempts;
mod agent_keys;
mod agent_pauses;
mod agent_places;
mod agent_sessions;
mod agent_tokens;
mod agent_turns;
mod agent_world;
mod agents;
mod answers;
mod archives;
mod attempt_readers;
mod bad_input;
mod browsers;
mod chosen_agent;
mod claims;
mod concurrency_limits;
mod deploy_requests;
mod deployments;
mod environments;
mod event_sources;
mod harness;
mod held_jobs;
mod inventory;
mod job;
mod job_tokens;
mod long_polls;
mod new_agents;
mod operator;
mod paging;
mod permissions;
mod remote_runners;
mod reports;
mod request_ids;
mod runner_checks;
mod runner_profiles;
mod runners;
mod runs;
mod scoped_roles;
mod service_accounts;
mod tokens;
mod transfers;
