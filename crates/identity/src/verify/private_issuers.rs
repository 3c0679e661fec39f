//! Issuers on an inner network that the operator of this installation lets Canyon fetch from.

use canyon_domain::trust_policy::{IssuerUrl, UnfitIssuer};
use reqwest::{Certificate, Url};
use std::fs;
use std::io;
use std::path::PathBuf;

/// The setting that names them.
const LIST: &str = "CANYON_PRIVATE_ISSUERS";
/// The setting that names the file with the authority of their certificates.
const AUTHORITY: &str = "CANYON_PRIVATE_ISSUERS_CA";

/// Issuers whose addresses need not be public.
#[derive(Clone, Debug, Default)]
pub struct PrivateIssuers {
    issuers: Vec<IssuerUrl>,
    authorities: Vec<Certificate>,
}

/// Why the settings are not taken.
#[derive(Debug, thiserror::Error)]
pub enum PrivateIssuersError {
    /// One is no issuer.
    #[error("setting {LIST}: `{given}` {reason}")]
    Issuer {
        /// What was given.
        given: String,
        /// Why not.
        reason: UnfitIssuer,
    },
    /// The file is not there, or not for us.
    #[error("setting {AUTHORITY}: cannot read `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file holds something else.
    #[error("setting {AUTHORITY}: `{}` holds no certificates in PEM", path.display())]
    NoCertificates {
        /// The file.
        path: PathBuf,
    },
}

impl PrivateIssuers {
    /// The issuers with these addresses, and the file of the authorities that vouch for them. Without
    /// one, those that the system trusts do.
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

    /// Whether it is one of them.
    pub fn includes(&self, issuer: &IssuerUrl) -> bool {
        self.issuers.contains(issuer)
    }

    /// Whether `url` is of the same host and port as one of them.
    pub(super) fn are_at(&self, url: &Url) -> bool {
        let origin = |issuer: &IssuerUrl| issuer.as_str().parse::<Url>().map(|url| url.origin());
        self.issuers.iter().any(|issuer| origin(issuer) == Ok(url.origin()))
    }

    pub(super) fn authorities(&self) -> &[Certificate] {
        &self.authorities
    }
}
