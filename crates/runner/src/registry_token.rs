//! The variable that passes OpenTofu the token for a host.

use url::{Host, Url};

/// The name of the variable with the token for the host of `address`; `None` if no variable can name that host.
///
/// The name is `TF_TOKEN_` and the host's name. In it an underscore stands for a period, two underscores stand for a
/// hyphen, and names outside of ASCII are in Punycode (OpenTofu, "CLI Configuration: Environment Variable
/// Credentials"). The port belongs to the name, unless it is that of https.
pub fn variable(address: &str) -> Option<String> {
    let url = Url::parse(address).ok()?;
    let host = match url.host()? {
        Host::Domain(name) => name.to_owned(),
        Host::Ipv4(address) => address.to_string(),
        // An IPv6 address has colons, and so has the port.
        Host::Ipv6(_) => return None,
    };
    let port = url.port_or_known_default().filter(|port| *port != 443);
    let port = port.map_or_else(String::new, |port| format!(":{port}"));
    Some(format!("TF_TOKEN_{}{port}", host.replace('-', "__").replace('.', "_")))
}

#[cfg(test)]
mod tests {
    use super::variable;

    #[test]
    fn a_host_is_written_as_opentofu_reads_it() {
        for (address, name) in [
            ("https://canyon.example.com", Some("TF_TOKEN_canyon_example_com")),
            ("https://canyon.example.com:443/stage", Some("TF_TOKEN_canyon_example_com")),
            (
                "https://eu-1.canyon.example.com:8443",
                Some("TF_TOKEN_eu__1_canyon_example_com:8443"),
            ),
            ("https://bücher.example", Some("TF_TOKEN_xn____bcher__kva_example")),
            ("http://127.0.0.1:8080", Some("TF_TOKEN_127_0_0_1:8080")),
            ("https://[::1]:8080", None),
            ("nonsense", None),
        ] {
            assert_eq!(variable(address).as_deref(), name, "{address}");
        }
    }
}
