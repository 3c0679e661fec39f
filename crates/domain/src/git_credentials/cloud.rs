//! Clouds whose git servers know a job by its own identity, so that no secret is kept.

use super::repository_prefix::RepositoryPrefix;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A cloud with git repositories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cloud {
    /// AWS `CodeCommit`. A job proves who it is with a signature for each repository.
    Aws,
    /// Azure Repos of Azure DevOps. A job proves who it is with a token of Microsoft Entra.
    Azure,
}

impl Cloud {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aws => "aws",
            Self::Azure => "azure",
        }
    }

    /// Why the identity is not for `repositories`; `None` if it is. Azure's token opens every repository that the identity
    /// may read, at whichever server gets it, so it is for Microsoft's servers alone. With `private_hosts`, addresses of
    /// private networks are accepted.
    pub fn obstacle(
        self,
        repositories: &RepositoryPrefix,
        private_hosts: bool,
    ) -> Option<&'static str> {
        if private_hosts && repositories.is_private_address() {
            return None;
        }
        let is_usual_port = repositories.port() == repositories.transport().default_port();
        let host = repositories.host();
        match self {
            Self::Aws if !is_usual_port || code_commit_region(host).is_none() => Some(
                "with `aws` is for addresses of CodeCommit: `https://git-codecommit.REGION.amazonaws.com[/v1/repos[/NAME]]`",
            ),
            Self::Aws if !is_code_commit_path(&repositories.path()) => Some(
                "with `aws` is for an address whose path is that of a repository, `/v1/repos/NAME`, or the beginning of one",
            ),
            Self::Azure if !is_usual_port || !is_azure_repos(host) => Some(
                "with `azure` is for addresses of Azure Repos: `https://dev.azure.com/ORGANIZATION` or \
                 `https://ORGANIZATION.visualstudio.com`",
            ),
            Self::Aws | Self::Azure => None,
        }
    }
}

impl fmt::Display for Cloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The region of a host of `CodeCommit`: a public one, one for FIPS, or one of an interface endpoint
/// (<https://docs.aws.amazon.com/general/latest/gr/codecommit.html>,
/// <https://docs.aws.amazon.com/codecommit/latest/userguide/codecommit-and-interface-VPC.html>).
pub fn code_commit_region(host: &str) -> Option<&str> {
    let of_service =
        host.strip_suffix(".amazonaws.com").or_else(|| host.strip_suffix(".amazonaws.com.cn"))?;
    let of_service = match of_service.strip_suffix(".vpce") {
        Some(shorter) => shorter.split_once('.').filter(|(id, _)| id.starts_with("vpce-"))?.1,
        None => of_service,
    };
    let (service, region) = of_service.split_once('.')?;
    let is_region =
        region.contains('-') && region.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let is_service = matches!(service, "git-codecommit" | "git-codecommit-fips");
    (is_service && is_region).then_some(region)
}

fn is_code_commit_path(path: &str) -> bool {
    let segments: Vec<_> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    segments.len() <= 3
        && segments.iter().zip(["v1", "repos"]).all(|(own, expected)| *own == expected)
}

fn is_azure_repos(host: &str) -> bool {
    let organization = host.strip_suffix(".visualstudio.com");
    host == "dev.azure.com"
        || organization.is_some_and(|name| !name.is_empty() && !name.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_of_code_commit_has_its_region() {
        for (host, expected) in [
            ("git-codecommit.eu-west-1.amazonaws.com", Some("eu-west-1")),
            ("git-codecommit-fips.us-gov-west-1.amazonaws.com", Some("us-gov-west-1")),
            ("git-codecommit.cn-north-1.amazonaws.com.cn", Some("cn-north-1")),
            ("vpce-0a1b-2c3d.git-codecommit.us-east-2.vpce.amazonaws.com", Some("us-east-2")),
            ("vpce-0a1b.git-codecommit-fips.us-east-2.vpce.amazonaws.com", Some("us-east-2")),
            ("x.git-codecommit.us-east-2.vpce.amazonaws.com", None),
            ("git-codecommit.us-east-2.vpce.amazonaws.com", None),
            ("git-codecommit.amazonaws.com", None),
            ("git-codecommit.eu-west-1.amazonaws.com.evil.example", None),
            ("git-codecommit.eu-west-1.evil.amazonaws.com", None),
            ("bucket.s3.eu-west-1.amazonaws.com", None),
            ("evil-git-codecommit.eu-west-1.amazonaws.com", None),
        ] {
            assert_eq!(code_commit_region(host), expected, "{host}");
        }
    }

    #[test]
    fn an_identity_is_for_the_servers_of_its_cloud() {
        let code_commit = "https://git-codecommit.eu-west-1.amazonaws.com";
        for (cloud, address, expected) in [
            (Cloud::Aws, code_commit.to_owned(), true),
            (Cloud::Aws, format!("{code_commit}/v1/repos"), true),
            (Cloud::Aws, format!("{code_commit}/v1/repos/network"), true),
            (Cloud::Aws, format!("{code_commit}/v1/repos/network/more"), false),
            (Cloud::Aws, format!("{code_commit}/network"), false),
            (Cloud::Aws, format!("{code_commit}:8443/v1/repos"), false),
            (Cloud::Aws, "https://dev.azure.com/acme".to_owned(), false),
            (Cloud::Aws, "https://git.example.com".to_owned(), false),
            (Cloud::Azure, "https://dev.azure.com".to_owned(), true),
            (Cloud::Azure, "https://dev.azure.com/acme/shop/_git/net".to_owned(), true),
            (Cloud::Azure, "https://Acme.visualstudio.com/shop".to_owned(), true),
            (Cloud::Azure, "https://dev.azure.com:8443/acme".to_owned(), false),
            (Cloud::Azure, "https://visualstudio.com/acme".to_owned(), false),
            (Cloud::Azure, "https://a.b.visualstudio.com".to_owned(), false),
            (Cloud::Azure, "https://dev.azure.com.evil.example/acme".to_owned(), false),
            (Cloud::Azure, "https://evil-dev.azure.com/acme".to_owned(), false),
            (Cloud::Azure, code_commit.to_owned(), false),
        ] {
            let repositories: RepositoryPrefix = address.parse().unwrap();
            for private_hosts in [false, true] {
                let obstacle = cloud.obstacle(&repositories, private_hosts);
                assert_eq!(obstacle.is_none(), expected, "{cloud} {address}: {obstacle:?}");
            }
        }
        let loopback = "https://127.0.0.1:8443/v1".parse().unwrap();
        assert!(Cloud::Azure.obstacle(&loopback, false).is_some());
        assert_eq!(Cloud::Azure.obstacle(&loopback, true), None);
    }
}
