//! Resources that consist of an id and a body. Their commands follow from one list.

use crate::body::BodyArguments;

/// Declares the plain resources. Each has its singular and its plural, as variants and on the command line, and the
/// help of its commands.
macro_rules! plain_resources {
    ($($one:ident, $many:ident {
        noun: $noun:literal, singular: $singular:literal, plural: $plural:literal, path: $path:literal,
        short: [$($short_one:literal, $short_many:literal)?],
        columns: $columns:expr,
        create: $create:literal,
        get: $get:literal,
        update: $update:literal,
        delete: $delete:literal $(+ $force:ident $force_help:literal)?,
        list: $list:literal,
    })+) => {
        /// A kind of plain resources.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum PlainKind {
            $($one,)+
        }

        impl PlainKind {
            /// The kind's name in texts.
            pub(crate) fn noun(self) -> &'static str {
                match self { $(Self::$one => $noun,)+ }
            }

            /// The kind whose commands have this name.
            pub(crate) fn of_command(name: &str) -> Option<Self> {
                match name { $($singular => Some(Self::$one),)+ _ => None }
            }

            /// The path of the list of its resources.
            pub(crate) fn path(self) -> impl Iterator<Item = &'static str> {
                let path = match self { $(Self::$one => $path,)+ };
                path.split('/')
            }

            /// Whether an update replaces each part that it gives, and a part has more than one value.
            pub(crate) fn replaces_parts(self) -> bool {
                !matches!(
                    self,
                    Self::Account | Self::SecretStore | Self::EnvironmentType | Self::Definition
                )
            }

            /// The columns of a list.
            pub(crate) fn columns(self) -> &'static [&'static str] {
                match self { $(Self::$one => &$columns,)+ }
            }
        }

        plain_resources!(@ with body Create, $($create, [$plural $(, $short_one)?], $one,)+);
        plain_resources!(@ with body Update, $($update, [$plural $(, $short_one)?], $one,)+);
        plain_resources!(@ with id Get, $($get, [$plural $(, $short_one)?], $one,)+);

        /// One of them, to delete.
        #[derive(Debug, clap::Subcommand)]
        pub(crate) enum Delete {
            $(#[doc = $delete] #[command(visible_aliases = [$plural $(, $short_one)?])] $one {
                /// Its id
                id: String,
                $(#[doc = $force_help] #[arg(long)] $force: bool,)?
            },)+
        }

        impl Delete {
            /// Its kind, its id, and whether it is deleted although it is in use.
            pub(crate) fn parts(self) -> (PlainKind, String, bool) {
                match self {
                    $(Self::$one { id $(, $force)? } => (PlainKind::$one, id, false $(|| $force)?),)+
                }
            }
        }

        /// A list of them.
        #[derive(Debug, clap::Subcommand)]
        pub(crate) enum List {
            $(#[doc = $list] #[command(visible_aliases = [$singular $(, $short_many, $short_one)?])] $many,)+
        }

        impl List {
            pub(crate) fn kind(&self) -> PlainKind {
                match self { $(Self::$many => PlainKind::$one,)+ }
            }
        }
    };
    (@ with body $name:ident, $($help:literal, $aliases:expr, $one:ident,)+) => {
        /// One of them, with the body of the request.
        #[derive(Debug, clap::Subcommand)]
        pub(crate) enum $name {
            $(#[doc = $help] #[command(visible_aliases = $aliases)] $one {
                /// Its id
                id: String,
                #[command(flatten)]
                body: BodyArguments,
            },)+
        }

        impl $name {
            pub(crate) fn parts(self) -> (PlainKind, String, BodyArguments) {
                match self { $(Self::$one { id, body } => (PlainKind::$one, id, body),)+ }
            }
        }
    };
    (@ with id $name:ident, $($help:literal, $aliases:expr, $one:ident,)+) => {
        /// One of them.
        #[derive(Debug, clap::Subcommand)]
        pub(crate) enum $name {
            $(#[doc = $help] #[command(visible_aliases = $aliases)] $one {
                /// Its id
                id: String,
            },)+
        }

        impl $name {
            pub(crate) fn parts(self) -> (PlainKind, String) {
                match self { $(Self::$one { id } => (PlainKind::$one, id),)+ }
            }
        }
    };
}

plain_resources! {
    EnvironmentType, EnvironmentTypes {
        noun: "environment type", singular: "environment-type", plural: "environment-types", path: "env-types",
        short: ["env-type", "env-types"],
        columns: ["id", "display_name", "created_at"],
        create: "A type of environments",
        get: "An environment type",
        update: "An environment type",
        delete: "An environment type that nothing uses",
        list: "Environment types",
    }
    EventSource, EventSources {
        noun: "event source", singular: "event-source", plural: "event-sources", path: "event-sources",
        short: [],
        columns: ["id", "account", "source", "rule", "project", "role"],
        create: "An AWS account whose events on the bus may request deployments",
        get: "An event source",
        update: "An event source; an empty `source`, `rule` or `project` is \"any\"",
        delete: "An event source: Canyon refuses its requests from then on",
        list: "AWS accounts whose events on the bus may request deployments",
    }
    IdentityProvider, IdentityProviders {
        noun: "identity provider", singular: "identity-provider", plural: "identity-providers",
        path: "identity-providers",
        short: [],
        columns: ["id", "issuer", "client_id", "description", "updated_at"],
        create: "An issuer whose people sign in, with the roles of their groups",
        get: "An identity provider",
        update: "An identity provider; `rules` in --set-yaml replace the stored ones, and its people must sign in again",
        delete: "An identity provider: its people cannot sign in any more, and their tokens expire",
        list: "Issuers whose people sign in",
    }
    RunnerProfile, RunnerProfiles {
        noun: "runner profile", singular: "runner-profile", plural: "runner-profiles", path: "runner-profiles",
        short: [],
        columns: ["id", "runner_types", "description", "updated_at"],
        create: "A profile: settings that runners of agents use by its name",
        get: "A runner profile",
        update: "A profile; --set changes single values, and a `job` in --set-yaml replaces the stored one",
        delete: "A runner profile: deployments that need it fail from then on",
        list: "Profiles of runners",
    }
    Definition, Definitions {
        noun: "resource definition", singular: "definition", plural: "definitions", path: "resources/defs",
        short: ["resource-definition", "resource-definitions"],
        columns: ["id", "type", "driver_type", "name", "updated_at"],
        create: "A resource definition: what makes the resources of a type; from a file of definitions: `canyon create -f FILE`",
        get: "A resource definition; secret values are not shown",
        update: "A resource definition: what is given is merged into it, and lists are replaced",
        delete: "A resource definition that no resource has"
            + force "Also if resources have it: they stay as they are, and the next deployment for them needs another",
        list: "Resource definitions",
    }
    Account, Accounts {
        noun: "account", singular: "account", plural: "accounts", path: "resources/accounts",
        short: [],
        columns: ["id", "type", "name", "updated_at"],
        create: "An identity at a cloud that resource definitions name; Canyon stores no keys of it",
        get: "An account",
        update: "An account; `credentials` are merged into the stored ones, and its type stays",
        delete: "An account that no resource definition names",
        list: "Identities at clouds that resource definitions name",
    }
    SecretStore, SecretStores {
        noun: "secret store", singular: "secret-store", plural: "secret-stores", path: "secret-stores",
        short: [],
        columns: ["id", "type", "description", "updated_at"],
        create: "A place where jobs read secrets themselves: Vault, a cloud's secret manager, a cluster's Secrets",
        get: "A secret store",
        update: "A secret store; `store_configuration` is merged into the stored one",
        delete: "A secret store that no variable refers to",
        list: "Places where jobs read secrets themselves",
    }
    ServiceAccount, ServiceAccounts {
        noun: "service account", singular: "service-account", plural: "service-accounts", path: "service-accounts",
        short: [],
        columns: ["id", "role", "scoped_roles", "runner_id", "description", "updated_at"],
        create: "A machine that signs in with a token of another issuer",
        get: "A service account",
        update: "A service account; `trust_policies` in --set-yaml replace the stored ones, and its tokens expire",
        delete: "A service account: no machine can sign in as it any more, and its tokens expire",
        list: "Machines that sign in with tokens of other issuers",
    }
}
