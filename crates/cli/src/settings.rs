//! The server's address, the organization and the token: from flags, then the environment, then the file
//! that `canyon login` writes. The token has no flag: every user of a machine can read arguments.

use crate::config_file::{self, ConfigFile};
use crate::error::CliError;
use canyon_api::client::Client;
use secrecy::SecretString;
use url::{Host, Url};

/// All settings that a call of Canyon needs.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) url: Url,
    pub(crate) org: String,
    pub(crate) token: SecretString,
}

/// The settings that flags give.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct SettingFlags {
    /// Address.
    #[arg(long, global = true, value_name = "URL", help = "Address [env: CANYON_API_URL]")]
    pub(crate) api_url: Option<String>,
    /// Organization.
    #[arg(long, global = true, value_name = "ID", help = "Organization [env: CANYON_ORG]")]
    pub(crate) org: Option<String>,
}

/// An environment variable of this process; an empty one counts as absent.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl Settings {
    /// The settings of this invocation.
    pub(crate) fn load(flags: &SettingFlags) -> Result<Self, CliError> {
        let file = match config_file::path(&variable) {
            Some(path) => ConfigFile::read(&path)?,
            None => ConfigFile::default(),
        };
        Self::choose(flags, &variable, file)
    }

    /// The settings for commands that need no organization.
    pub(crate) fn load_without_org(flags: &SettingFlags) -> Result<Self, CliError> {
        Self::load(&SettingFlags { org: Some(String::new()), ..flags.clone() })
    }

    /// Takes each setting from the flag, the variable or the file, in this order.
    fn choose(
        flags: &SettingFlags,
        variable: &dyn Fn(&str) -> Option<String>,
        file: ConfigFile,
    ) -> Result<Self, CliError> {
        let missing = |what| CliError::MissingSetting { what };
        let url = flags.api_url.clone().or_else(|| variable("CANYON_API_URL")).or(file.url);
        let org = flags.org.clone().or_else(|| variable("CANYON_ORG")).or(file.org);
        let token = variable("CANYON_TOKEN").map(SecretString::from).or(file.token);
        Ok(Self {
            url: address(&url.ok_or_else(|| missing("address"))?)?,
            org: org.ok_or_else(|| missing("organization"))?,
            token: token.ok_or_else(|| missing("token"))?,
        })
    }

    /// A client with these settings.
    pub(crate) fn client(self) -> Result<Client, CliError> {
        Ok(Client::new(self.url.as_str(), &self.org, self.token)?)
    }

    /// Whether the token would cross a network unencrypted.
    pub(crate) fn is_exposed(&self) -> bool {
        let own = match self.url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        self.url.scheme() == "http" && !own
    }
}

/// The server's address, if a flag, a variable or the file gives one.
pub(crate) fn address_of(flags: &SettingFlags) -> Result<Option<Url>, CliError> {
    let given = flags.api_url.clone().or_else(|| variable("CANYON_API_URL"));
    let url = match (given, config_file::path(&variable)) {
        (None, Some(path)) => ConfigFile::read(&path)?.url,
        (given, _) => given,
    };
    url.as_deref().map(address).transpose()
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

    fn choose(flag: Option<&str>, variable: Option<&str>, file: Option<&str>) -> Option<String> {
        let flags = SettingFlags { api_url: None, org: flag.map(str::to_owned) };
        let variables = |name: &str| match name {
            "CANYON_API_URL" => Some("http://127.0.0.1:1".to_owned()),
            "CANYON_TOKEN" => Some("variable".to_owned()),
            _ => variable.map(str::to_owned),
        };
        let file = ConfigFile {
            org: file.map(str::to_owned),
            token: Some("file".into()),
            ..ConfigFile::default()
        };
        let settings = Settings::choose(&flags, &variables, file).ok()?;
        assert_eq!(settings.token.expose_secret(), "variable");
        Some(settings.org)
    }

    #[test]
    fn a_flag_overrides_a_variable_which_overrides_the_file() {
        let all = [Some("flag"), Some("variable"), Some("file")];
        assert_eq!(choose(all[0], all[1], all[2]).as_deref(), Some("flag"));
        assert_eq!(choose(None, all[1], all[2]).as_deref(), Some("variable"));
        assert_eq!(choose(None, None, all[2]).as_deref(), Some("file"));
        assert_eq!(choose(None, None, None), None);
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
            let settings =
                Settings { url: address(url).unwrap(), org: "local".to_owned(), token: "t".into() };
            assert_eq!(settings.is_exposed(), exposed, "{url}");
        }
        assert!(address("ftp://x").is_err() && address("http://u:p@x").is_err());
    }
}
