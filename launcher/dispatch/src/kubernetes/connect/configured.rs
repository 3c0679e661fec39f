//! `kubernetes`: the definition itself has the cluster's address and Canyon's credentials.

use super::{ASSERTION_LIFETIME, Access, Connector, Identity, identity_of, of_federation};
use crate::{DispatchError, Target};
use canyon_domain::failure::FailureClass;
use canyon_domain::ports::Clock;
use canyon_domain::runner::kubernetes::{KubernetesAuth, KubernetesCluster};

pub(super) async fn access(
    connector: &Connector,
    target: &Target,
    cluster: &KubernetesCluster,
) -> Result<Access, DispatchError> {
    let KubernetesAuth { client_certificate_data, client_key_data, service_account_token, oidc } =
        &cluster.auth;
    let mut until = connector.until(None);
    let identity = match (oidc, client_certificate_data, client_key_data, service_account_token) {
        (Some(oidc), ..) => {
            let who = identity_of(target);
            let (federation, server) =
                (connector.federation(target)?, &cluster.cluster_data.server);
            let token = federation.assertion_for_server(who, &oidc.audience, server).await;
            until = until.min(connector.clock.now() + ASSERTION_LIFETIME);
            Identity::Bearer(token.map_err(|error| of_federation(target, &error))?)
        }
        (None, Some(certificate), Some(key), _) => {
            Identity::Certificate { certificate: certificate.clone(), key: key.clone() }
        }
        (None, None, _, Some(token)) => Identity::Bearer(token.clone()),
        _ => {
            let message = format!(
                "runner `{}`: its secret is not stored; set it with: canyon update runner {0}",
                target.runner_id
            );
            return Err(DispatchError::refused(FailureClass::Config, message));
        }
    };
    Ok(Access {
        server: cluster.cluster_data.server.clone(),
        authority: Some(cluster.cluster_data.certificate_authority_data.clone()),
        proxy: cluster.cluster_data.proxy_url.clone(),
        identity,
        until,
    })
}
