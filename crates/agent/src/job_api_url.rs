//! The address at which the jobs of an agent reach Canyon.

use url::{Host, Url};

/// The address for a job. The agent's setting comes first, then the address that Canyon advertises. A Canyon without a
/// configured address advertises one of its own machine, which other machines cannot reach. In that case it is the
/// address at which the agent itself reaches Canyon.
pub(crate) fn job_api_url<'a>(
    setting: Option<&'a str>,
    advertised: Option<&'a str>,
    of_agent: &'a str,
) -> Option<&'a str> {
    if setting.is_some() {
        return setting;
    }
    let is_unreachable = advertised.is_none_or(is_loopback) && !is_loopback(of_agent);
    if is_unreachable { Some(of_agent) } else { advertised }
}

fn is_loopback(url: &str) -> bool {
    let url = Url::parse(url).ok();
    match url.as_ref().and_then(Url::host) {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback() || address.is_unspecified(),
        Some(Host::Ipv6(address)) => address.is_loopback() || address.is_unspecified(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_use_the_advertised_address_unless_only_canyons_own_machine_can_reach_it() {
        let (public, far, here) =
            ("https://canyon.example.com", "http://10.0.0.5:8080", "http://127.0.0.1:8080");
        for (setting, advertised, of_agent, expected) in [
            (Some(far), Some(public), here, far),
            (None, Some(public), far, public),
            (None, Some(public), here, public),
            (None, Some(here), far, far),
            (None, Some("http://localhost:8080"), far, far),
            (None, Some("http://[::1]:8080"), public, public),
            (None, Some("http://0.0.0.0:8080"), far, far),
            (None, Some(here), "http://localhost:8080", here),
            (None, None, far, far),
        ] {
            let found = job_api_url(setting, advertised, of_agent);
            assert_eq!(found, Some(expected), "{advertised:?} {of_agent}");
        }
    }
}
