//! Issuers on a private network that the operator of this installation allows Canyon to fetch from.

use canyon_domain::trust_policy::{InvalidIssuer, IssuerUrl};
use reqwest::{Certificate, Url};
use std::fs;
use std::io;
use std::path::PathBuf;

/// Setting with the list of issuers.
const LIST_SETTING: &str = "CANYON_PRIVATE_ISSUERS";
/// Setting with the file of the certificate authorities.
const AUTHORITY_SETTING: &str = "CANYON_PRIVATE_ISSUERS_CA";

/// Issuers whose addresses need not be public.
#[derive(Clone, Debug, Default)]
pub struct PrivateIssuers {
    issuers: Vec<IssuerUrl>,
    authorities: Vec<Certificate>,
}

/// Why the settings are rejected.
#[derive(Debug, thiserror::Error)]
pub enum PrivateIssuersError {
    /// An entry is not an issuer.
    #[error("setting {LIST_SETTING}: `{given}` {reason}")]
    Issuer {
        /// The entry.
        given: String,
        /// The fault.
        reason: InvalidIssuer,
    },
    /// The file cannot be read.
    #[error("setting {AUTHORITY_SETTING}: cannot read `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file contains no certificates.
    #[error("setting {AUTHORITY_SETTING}: `{}` holds no certificates in PEM", path.display())]
    NoCertificates {
        /// The file.
        path: PathBuf,
    },
}

impl PrivateIssuers {
    /// The issuers with these addresses, and the file of their certificate authorities. Without a
    /// file, the system's authorities apply.
    ///
    /// # Errors
    ///
    /// [`PrivateIssuersError`] names the setting at fault.
    pub fn new(
        issuers: &[String],
        authority: Option<PathBuf>,
    ) -> Result<Self, PrivateIssuersError> {
        let issuer = |given: &String| {
            let fault = |reason| PrivateIssuersError::Issuer { given: given.clone(), reason };
            IssuerUrl::new(given).map_err(fault)
        };
        let issuers = issuers.iter().map(issuer).collect::<Result<_, _>>()?;
        let authorities = match authority {
            None => Vec::new(),
            Some(path) => match fs::read(&path) {
                Err(source) => return Err(PrivateIssuersError::Unreadable { path, source }),
                Ok(pem) => Certificate::from_pem_bundle(&pem)
                    .ok()
                    .filter(|authorities| !authorities.is_empty())
                    .ok_or(PrivateIssuersError::NoCertificates { path })?,
            },
        };
        Ok(Self { issuers, authorities })
    }

    /// Whether `issuer` is one of them.
    pub fn includes(&self, issuer: &IssuerUrl) -> bool {
        self.issuers.contains(issuer)
    }

    /// Whether `url` has the same host and port as one of them.
    pub(super) fn are_at(&self, url: &Url) -> bool {
        let origin = |issuer: &IssuerUrl| issuer.as_str().parse::<Url>().map(|url| url.origin());
        self.issuers.iter().any(|issuer| origin(issuer) == Ok(url.origin()))
    }

    pub(super) fn authorities(&self) -> &[Certificate] {
        &self.authorities
    }
}
