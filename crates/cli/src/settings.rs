//! The server's address, the organization and the token: from flags, then the environment, then the context that
//! `canyon login` wrote. The token has no flag: every user of a machine can read arguments.

use crate::config_file::{self, ConfigFile};
use crate::context::Context;
use crate::context_name::ContextName;
use crate::error::CliError;
use crate::login_context::is_same_server;
use crate::output::Output;
use crate::process_variable::variable;
use canyon_api::client::Client;
use secrecy::SecretString;
use url::{Host, Url};

/// All settings that a call of Canyon needs.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) url: Url,
    pub(crate) org: String,
    pub(crate) token: SecretString,
    /// The context in which a person has signed in and that all of them are from: its token can be renewed.
    pub(crate) signed_in: Option<ContextName>,
    /// The context whose token it is; none if the token is `CANYON_TOKEN`.
    pub(crate) token_of: Option<ContextName>,
}

/// The settings that flags give.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct SettingFlags {
    /// Context.
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        help = "Context, with its address, organization and token [env: CANYON_CONTEXT]"
    )]
    pub(crate) context: Option<ContextName>,
    /// Address.
    #[arg(long, global = true, value_name = "URL", help = "Address [env: CANYON_API_URL]")]
    pub(crate) api_url: Option<String>,
    /// Organization.
    #[arg(long, global = true, value_name = "ID", help = "Organization [env: CANYON_ORG]")]
    pub(crate) org: Option<String>,
}

impl SettingFlags {
    /// The context that the flag or the variable `CANYON_CONTEXT` names; it may not exist.
    pub(crate) fn named_context(
        &self,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<ContextName>, CliError> {
        if self.context.is_some() {
            return Ok(self.context.clone());
        }
        let name = variable("CANYON_CONTEXT").map(|name| name.parse());
        name.transpose().map_err(|reason| CliError::usage(format!("CANYON_CONTEXT: {reason}")))
    }

    /// The same, else the current context of `file`; it may not exist either.
    pub(crate) fn context_name(
        &self,
        variable: &dyn Fn(&str) -> Option<String>,
        file: &ConfigFile,
    ) -> Result<Option<ContextName>, CliError> {
        Ok(self.named_context(variable)?.or_else(|| file.current.clone()))
    }
}

impl Settings {
    /// The settings of this invocation.
    pub(crate) fn load(flags: &SettingFlags) -> Result<Self, CliError> {
        Self::choose(flags, &variable, &config_file::load()?)
    }

    /// The settings for commands that need no organization.
    pub(crate) fn load_without_org(flags: &SettingFlags) -> Result<Self, CliError> {
        Self::load(&SettingFlags { org: Some(String::new()), ..flags.clone() })
    }

    /// Takes each setting from the flag, the variable or the context, in this order.
    fn choose(
        flags: &SettingFlags,
        variable: &dyn Fn(&str) -> Option<String>,
        file: &ConfigFile,
    ) -> Result<Self, CliError> {
        let missing = |what| CliError::MissingSetting { what };
        let Given { url, org, token, signed_in, token_of, withheld } =
            given(flags, variable, file)?;
        let url = address(&url.ok_or_else(|| missing("address"))?)?;
        let org = org.ok_or_else(|| missing("organization"))?;
        let token = token.ok_or_else(|| match &withheld {
            Some(of) => of.refuse(&url),
            None => missing("token"),
        })?;
        Ok(Self { url, org, token, signed_in, token_of })
    }

    /// A client with these settings.
    pub(crate) fn client(self) -> Result<Client, CliError> {
        Ok(Client::new(self.url.as_str(), &self.org, self.token)?)
    }

    /// Where the token is from, in words.
    pub(crate) fn source_of_token(&self) -> String {
        match &self.token_of {
            Some(name) => format!("the token of the context `{name}`"),
            None => "the token of the variable CANYON_TOKEN".to_owned(),
        }
    }

    /// Whether the token would cross a network unencrypted.
    pub(crate) fn is_exposed(&self) -> bool {
        is_unencrypted(&self.url)
    }
}

/// Each setting, if a flag, a variable or the context gives it.
struct Given {
    url: Option<String>,
    org: Option<String>,
    token: Option<SecretString>,
    signed_in: Option<ContextName>,
    token_of: Option<ContextName>,
    withheld: Option<Withheld>,
}

/// A context whose token is for another server than the one that is asked.
struct Withheld {
    context: ContextName,
    address: String,
}

impl Withheld {
    /// The error if there is no other token.
    fn refuse(&self, asked: &Url) -> CliError {
        let Self { context, address } = self;
        CliError::usage_with_hint(
            format!(
                "the token of the context `{context}` is for {address}, and is not sent to {asked}; no other token is set"
            ),
            format!(
                "choose a context of that address with --context, sign in there with `canyon login --api-url {asked}`, or \
                 set CANYON_TOKEN"
            ),
        )
    }
}

/// A context that the flag `--context` names is a flag too: it takes precedence over variables, so that `--context prod`
/// means the same in every shell.
fn given(
    flags: &SettingFlags,
    variable: &dyn Fn(&str) -> Option<String>,
    file: &ConfigFile,
) -> Result<Given, CliError> {
    let name = flags.context_name(variable, file)?;
    let context = name.as_ref().map(|name| file.context(name).cloned()).transpose()?;
    let Context { url, org, token, sign_in, .. } = context.unwrap_or_default();
    let is_flag = flags.context.is_some();
    let own = (url.clone(), org.clone());
    let url = flags.api_url.clone().or_else(|| choose(is_flag, url, variable("CANYON_API_URL")));
    let org = flags.org.clone().or_else(|| choose(is_flag, org, variable("CANYON_ORG")));
    // A token is for its own server: another one that a flag or a variable names must not learn it.
    let asked = url.as_deref().and_then(|url| Url::parse(url).ok());
    let is_own_server = match (own.0.as_deref(), asked) {
        (Some(own), Some(asked)) => is_same_server(own, &asked),
        _ => true,
    };
    let withheld = match (&token, &name, own.0.clone()) {
        (Some(_), Some(context), Some(address)) if !is_own_server => {
            Some(Withheld { context: context.clone(), address })
        }
        _ => None,
    };
    let token = token.filter(|_| is_own_server);
    let others = variable("CANYON_TOKEN").map(SecretString::from);
    let is_own = (is_flag || others.is_none()) && own == (url.clone(), org.clone());
    let is_of_context = token.is_some() && (is_flag || others.is_none());
    let token_of = name.clone().filter(|_| is_of_context);
    let signed_in = name.filter(|_| is_own && sign_in.is_some());
    let token = choose(is_flag, token, others);
    Ok(Given { url, org, token, signed_in, token_of, withheld })
}

fn choose<T>(is_flag: bool, of_context: Option<T>, of_variable: Option<T>) -> Option<T> {
    if is_flag { of_context.or(of_variable) } else { of_variable.or(of_context) }
}

/// The server's address, if a flag, a variable or the context gives one.
pub(crate) fn address_of(flags: &SettingFlags) -> Result<Option<Url>, CliError> {
    if let (Some(url), None) = (&flags.api_url, &flags.context) {
        return address(url).map(Some);
    }
    given(flags, &variable, &config_file::load()?)?.url.as_deref().map(address).transpose()
}

/// After a change of a context's sign-in: says that commands of this shell use another token, if so.
pub(crate) fn warn_of_other_token(flags: &SettingFlags, output: Output) {
    if flags.context.is_none() && variable("CANYON_TOKEN").is_some() {
        output.notice(
            "warning: in this shell CANYON_TOKEN is set, and takes precedence over the context",
        );
    }
}

/// Whether what is sent to this http or https address crosses a network unencrypted.
pub(crate) fn is_unencrypted(url: &Url) -> bool {
    let is_own = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    url.scheme() == "http" && !is_own
}

/// Checks an address.
pub(crate) fn address(text: &str) -> Result<Url, CliError> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    url.filter(|url| url.username().is_empty() && url.password().is_none()).ok_or_else(|| {
        CliError::usage_with_hint(
            "the address of Canyon is not an http or https address without user and password",
            "write it like http://127.0.0.1:8080, in --api-url or CANYON_API_URL",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    fn file(contexts: &[(&str, Option<&str>)], current: Option<&str>) -> ConfigFile {
        let context = |org: Option<&str>| Context {
            url: Some("http://127.0.0.1:1".to_owned()),
            org: org.map(str::to_owned),
            token: Some("context".into()),
            ..Context::default()
        };
        let contexts = contexts.iter().map(|(name, org)| (name.parse().unwrap(), context(*org)));
        ConfigFile {
            current: current.map(|name| name.parse().unwrap()),
            contexts: contexts.collect(),
        }
    }

    fn settings(
        flags: &SettingFlags,
        variables: &[(&str, &str)],
        file: &ConfigFile,
    ) -> Result<(String, String), CliError> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let settings = Settings::choose(flags, &variable, file)?;
        Ok((settings.org, settings.token.expose_secret().to_owned()))
    }

    fn flags(context: Option<&str>, org: Option<&str>) -> SettingFlags {
        let context = context.map(|name| name.parse().unwrap());
        SettingFlags { context, api_url: None, org: org.map(str::to_owned) }
    }

    #[test]
    fn a_flag_overrides_a_variable_which_overrides_the_context() {
        let org = |flag, variable: Option<&str>, stored| {
            let variables: Vec<_> = variable.map(|org| ("CANYON_ORG", org)).into_iter().collect();
            let file = file(&[("one", stored)], Some("one"));
            settings(&flags(None, flag), &variables, &file).ok().map(|(org, _)| org)
        };
        let all = [Some("flag"), Some("variable"), Some("context")];
        assert_eq!(org(all[0], all[1], all[2]).as_deref(), Some("flag"));
        assert_eq!(org(None, all[1], all[2]).as_deref(), Some("variable"));
        assert_eq!(org(None, None, all[2]).as_deref(), Some("context"));
        assert_eq!(org(None, None, None), None);
    }

    #[test]
    fn a_flag_a_variable_or_the_file_names_the_context() {
        let file = file(&[("one", Some("acme")), ("two", Some("beta"))], Some("one"));
        let of = |flag, variables: &[(&str, &str)]| {
            settings(&flags(flag, None), variables, &file).unwrap()
        };
        let both = |org: &str, token: &str| (org.to_owned(), token.to_owned());
        let (named, token) = (("CANYON_CONTEXT", "two"), ("CANYON_TOKEN", "variable"));
        assert_eq!(of(None, &[]), both("acme", "context"));
        assert_eq!(of(None, &[named]), both("beta", "context"));
        assert_eq!(of(Some("one"), &[named]), both("acme", "context"));
        assert_eq!(of(None, &[named, token]), both("beta", "variable"));
        assert_eq!(of(Some("two"), &[token, ("CANYON_ORG", "x")]), both("beta", "context"));
    }

    #[test]
    fn a_token_of_a_context_goes_to_no_other_server() {
        let file = file(&[("one", Some("acme"))], Some("one"));
        let other = ("CANYON_API_URL", "http://127.0.0.1:2");
        let refused = settings(&flags(None, None), &[other], &file).unwrap_err();
        let hint = crate::hint::hint(&refused).unwrap();
        insta::assert_snapshot!(format!("{refused}\n{hint}"), @"
        the token of the context `one` is for http://127.0.0.1:1, and is not sent to http://127.0.0.1:2/; no other token is set
        choose a context of that address with --context, sign in there with `canyon login --api-url http://127.0.0.1:2/`, or set CANYON_TOKEN
        ");
        let same = ("CANYON_API_URL", "http://127.0.0.1:1/");
        assert!(settings(&flags(None, None), &[same], &file).is_ok());
        let own = settings(&flags(None, None), &[other, ("CANYON_TOKEN", "variable")], &file);
        assert_eq!(own.unwrap().1, "variable");
    }

    #[test]
    fn a_context_that_does_not_exist_is_refused_with_the_nearest_names() {
        let file = file(&[("prod", None), ("prod2", None), ("dev", None)], Some("gone"));
        let hint = |name: Option<&str>| {
            let error = settings(&flags(name, Some("acme")), &[], &file).unwrap_err();
            format!("{error}; {}", crate::hint::hint(&error).unwrap())
        };
        insta::assert_snapshot!([hint(Some("prdo")), hint(None)].join("\n"), @"
        the context `prdo` does not exist; did you mean `prod`?
        the context `gone` does not exist; the contexts are `dev`, `prod`, `prod2`
        ");
    }

    #[test]
    fn an_unencrypted_token_on_a_network_is_detected() {
        for (url, exposed) in [
            ("http://127.0.0.1:8080", false),
            ("http://[::1]:8080", false),
            ("http://localhost", false),
            ("https://canyon.example.com", false),
            ("http://canyon.example.com", true),
            ("http://localhost.example.com", true),
        ] {
            let settings = Settings {
                url: address(url).unwrap(),
                org: "local".to_owned(),
                token: "t".into(),
                signed_in: None,
                token_of: None,
            };
            assert_eq!(settings.is_exposed(), exposed, "{url}");
        }
        assert!(address("ftp://x").is_err() && address("http://u:p@x").is_err());
    }
}
