//! A Canyon with an issuer of its own, and the clouds that it calls.

mod canyon;
mod state;
mod strict;

pub(crate) use canyon::{Canyon, CountingSigner, runner};
pub(crate) use state::{
    CLIENT, PROVIDER, ROLE, TENANT, account, application, aws_auth, azure_auth, gcp_auth, provider,
    role,
};
pub(crate) use strict::{Strict, python};
