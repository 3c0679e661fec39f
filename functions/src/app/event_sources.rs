//! Creates, changes and deletes event sources.

use super::App;
use crate::app::error::AppError;
use crate::app::narrowing::Narrowing;
use canyon_domain::event_source::{
    AccountId, EventSource, EventSourceId, RuleRef, Scope, SourceName,
};
use canyon_domain::ids::ProjectId;
use canyon_domain::principal::{Principal, Role};
use canyon_store::contention::MAX_TRIES;
use canyon_store::event_sources::MAX_EVENT_SOURCES;
use canyon_store::outcome::{Created, Deleted, Saved};
use canyon_store::page::{Page, PageRequest};

/// The fields of an event source to change.
#[derive(Clone, Debug)]
pub(crate) struct EventSourceChange {
    pub(crate) account: Option<AccountId>,
    pub(crate) source: Narrowing<SourceName>,
    pub(crate) rule: Narrowing<RuleRef>,
    pub(crate) project: Narrowing<ProjectId>,
}

impl EventSourceChange {
    fn of(self, before: Scope) -> Scope {
        Scope {
            account: self.account.unwrap_or(before.account),
            source: self.source.of(before.source),
            rule: self.rule.of(before.rule),
            project: self.project.of(before.project),
        }
    }
}

impl App {
    /// A page of the event sources.
    pub(crate) async fn event_sources(
        &self,
        by: &Principal,
        page: &PageRequest,
    ) -> Result<Page<EventSource>, AppError> {
        Ok(self.table.event_sources(by.org, page).await?)
    }

    /// Creates an event source. Refused if another one has the same scope: it would then be undefined which of them
    /// admits a request.
    pub(crate) async fn create_event_source(
        &self,
        by: &Principal,
        id: EventSourceId,
        scope: Scope,
    ) -> Result<EventSource, AppError> {
        let record = self.record(by, "event_source.create", format!("event-sources/{id}"));
        let source = EventSource {
            id,
            uuid: self.entropy.id(record.at),
            scope,
            role: Role::Deployer,
            created_at: record.at,
            updated_at: record.at,
            version: 1,
        };
        self.check_names_project(by, &source.scope).await?;
        for _ in 0..MAX_TRIES {
            let known = self.table.all_event_sources(by.org).await?;
            if known.iter().any(|other| other.id == source.id) {
                return Err(AppError::conflict(format!(
                    "event source `{0}` exists already; change it with: canyon update \
                     event-source {0}",
                    source.id
                )));
            }
            refuse_rival(&known, &source)?;
            if known.len() >= MAX_EVENT_SOURCES {
                return Err(AppError::conflict(format!(
                    "an organization has at most {MAX_EVENT_SOURCES} event sources; delete some \
                     first"
                )));
            }
            if self.table.create_event_source(by.org, &source, &record).await? == Created::Yes {
                return Ok(source);
            }
        }
        Err(AppError::contended(&source.id))
    }

    async fn check_names_project(&self, by: &Principal, scope: &Scope) -> Result<(), AppError> {
        let Some(project) = &scope.project else { return Ok(()) };
        if self.is_project_or_group(by, project).await? {
            return Ok(());
        }
        Err(AppError::invalid(
            "project",
            format!(
                "names neither a project nor a group that has one; create it: canyon create project {project}"
            ),
        ))
    }

    /// An event source. 404 if it does not exist.
    pub(crate) async fn event_source(
        &self,
        by: &Principal,
        id: &EventSourceId,
    ) -> Result<EventSource, AppError> {
        let found = self.table.event_source(by.org, id).await?;
        found.ok_or_else(|| AppError::not_found("event source", id))
    }

    /// Changes the fields that `change` gives. The change applies from the next event on.
    pub(crate) async fn update_event_source(
        &self,
        by: &Principal,
        id: &EventSourceId,
        change: &EventSourceChange,
    ) -> Result<EventSource, AppError> {
        for _ in 0..MAX_TRIES {
            let before = self.event_source(by, id).await?;
            let record = self.record(by, "event_source.update", format!("event-sources/{id}"));
            let mut after = before.clone();
            after.scope = change.clone().of(after.scope);
            after.updated_at = record.at;
            after.version += 1;
            if before.scope.project != after.scope.project {
                self.check_names_project(by, &after.scope).await?;
            }
            refuse_rival(&self.table.all_event_sources(by.org).await?, &after)?;
            let saved = self.table.save_event_source(by.org, &before, &after, &record).await?;
            if saved == Saved::Yes {
                return Ok(after);
            }
        }
        Err(AppError::contended(id))
    }

    /// Deletes an event source: its requests are refused from then on. Its earlier deployments continue.
    pub(crate) async fn delete_event_source(
        &self,
        by: &Principal,
        id: &EventSourceId,
    ) -> Result<(), AppError> {
        for _ in 0..MAX_TRIES {
            let source = self.event_source(by, id).await?;
            let record = self.record(by, "event_source.delete", format!("event-sources/{id}"));
            let deleted = self.table.delete_event_source(by.org, &source, &record).await?;
            if deleted == Deleted::Yes {
                return Ok(());
            }
        }
        Err(AppError::contended(id))
    }
}

fn refuse_rival(known: &[EventSource], source: &EventSource) -> Result<(), AppError> {
    let same = |other: &&EventSource| other.scope == source.scope && other.id != source.id;
    match known.iter().find(same) {
        None => Ok(()),
        Some(EventSource { id, scope, .. }) => Err(AppError::conflict(format!(
            "event source `{id}` speaks for {scope} already; narrow one of them, or delete it: \
             canyon delete event-source {id}"
        ))
        .with_detail("event_source", id.to_string())),
    }
}
