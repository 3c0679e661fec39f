//! What each operation needs: the table of `docs/permissions.md`.

/// What an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// No token.
    Nothing,
    /// A token of another kind: an agent's, a job's, the operator's.
    Own(&'static str),
    /// A role in the whole organization.
    Whole(char),
    /// A role anywhere.
    Anywhere(char),
    /// Something that may be read in the project.
    Seen,
    /// A role in the project.
    Project(char),
    /// A role in the environment.
    Environment(char),
    /// A list of what the caller may read.
    List,
}
pub(crate) use Need::{Anywhere, Environment, List, Nothing, Own, Project, Seen, Whole};

/// That of an agent.
pub(crate) const AGENT: Need = Own("an agent");
/// That of a job: a claim code, or what its runner or module got for it.
pub(crate) const JOB: Need = Own("a job");

/// Each operation of the API's document, by its id.
pub(crate) const NEEDS: &[(&str, Need)] = &[
    ("adoptAgent", Whole('A')),
    ("cancelDeployment", Environment('D')),
    ("checkRunner", Whole('D')),
    ("claimAttempt", JOB),
    ("closeAgentSession", AGENT),
    ("createArchiveUploadUrl", Anywhere('D')),
    ("createDeployment", Environment('D')),
    ("createEnvironment", Environment('A')),
    ("createEnvironmentType", Whole('A')),
    ("createEventSource", Whole('A')),
    ("createOrganization", Own("the operator")),
    ("createProject", Project('A')),
    ("createRunner", Whole('A')),
    ("createRunnerProfile", Whole('A')),
    ("createRunnerRuleInOrg", Whole('A')),
    ("createServiceAccount", Whole('A')),
    ("createToken", Whole('A')),
    ("deleteConcurrencyLimit", Whole('A')),
    ("deleteEnvironment", Environment('A')),
    ("deleteEnvironmentType", Whole('A')),
    ("deleteEventSource", Whole('A')),
    ("deleteProject", Project('A')),
    ("deleteRunner", Whole('A')),
    ("deleteRunnerProfile", Whole('A')),
    ("deleteRunnerRuleInOrg", Whole('A')),
    ("deleteServiceAccount", Whole('A')),
    ("deleteToken", Whole('A')),
    ("exchangeToken", Nothing),
    ("followDeploymentLogs", Environment('V')),
    ("forgetAgent", Whole('A')),
    ("getAgent", Whole('V')),
    ("getArchive", Anywhere('V')),
    ("getConcurrencyLimit", Whole('V')),
    ("getDeployment", Environment('V')),
    ("getDeploymentBundle", JOB),
    ("getDeploymentEncryptedOutputs", Environment('V')),
    ("getDeploymentLogs", Environment('V')),
    ("getDeploymentOutputs", Environment('V')),
    ("getEnvironment", Environment('V')),
    ("getEnvironmentType", Whole('V')),
    ("getEventSource", Whole('V')),
    ("health", Nothing),
    ("openid_configuration", Nothing),
    ("jwks", Nothing),
    ("openapi", Anywhere('V')),
    ("getOrganization", Anywhere('V')),
    ("getProject", Seen),
    ("getRunner", Whole('V')),
    ("getRunnerCheck", Whole('V')),
    ("getRunnerProfile", Whole('V')),
    ("getRunnerRuleInOrg", Whole('V')),
    ("getRunnerTrust", Whole('V')),
    ("getServiceAccount", Whole('V')),
    ("issueJobToken", JOB),
    ("judgeStateLock", JOB),
    ("listAgents", Whole('V')),
    ("listAuditRecords", Whole('A')),
    ("listConcurrencyLimits", Whole('V')),
    ("listDeploymentOrphans", Environment('V')),
    ("listDeployments", List),
    ("listEnvironmentTypes", Whole('V')),
    ("listEnvironments", Seen),
    ("listEnvironmentsInOrg", List),
    ("listEventSources", Whole('V')),
    ("listProjects", List),
    ("listRunnerProfiles", Whole('V')),
    ("listRunnerRulesInOrg", Whole('V')),
    ("listRunners", Whole('V')),
    ("listServiceAccounts", Whole('V')),
    ("listTokens", Whole('A')),
    ("openAgentSession", AGENT),
    ("pollAgentWork", AGENT),
    ("putArchive", Anywhere('D')),
    ("rejectAgent", Whole('A')),
    ("reportAgentJobs", AGENT),
    ("reportAttempt", JOB),
    ("setConcurrencyLimit", Whole('A')),
    ("takeAgentJobs", AGENT),
    ("updateAgent", Whole('A')),
    ("updateDeploymentResults", JOB),
    ("updateEnvironment", Environment('A')),
    ("updateEnvironmentType", Whole('A')),
    ("updateEventSource", Whole('A')),
    ("updateOrganization", Whole('A')),
    ("updateProject", Project('A')),
    ("updateRunner", Whole('A')),
    ("updateRunnerInAnEnvironment", Environment('A')),
    ("updateRunnerProfile", Whole('A')),
    ("updateServiceAccount", Whole('A')),
    ("waitForDeploymentComplete", Environment('V')),
    ("waitForRemoteRunnerMessages", Own("a polling runner")),
];
