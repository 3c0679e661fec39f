//! Restores the path of a request as its sender wrote it: API Gateway changes it in two ways.

use axum::http::uri::PathAndQuery;
use axum::http::{Request, Uri};
use canyon_domain::ids::BELOW_PROJECT;
use lambda_http::RequestExt as _;
use lambda_http::request::RequestContext;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The characters that a path may contain unescaped. The gateway has decoded the others. Encoded again, they are part
/// of a name: they neither begin a query nor leave a folder. `%` stays, for front ends that decode nothing; no id
/// contains one.
const WRITTEN: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'%');

/// Removes the name of the gateway's stage from the path, and joins the groups of a project into one segment.
///
/// An HTTP API prefixes the path with its stage unless that is `$default`, and decodes it, so that `payments%2Fapi`
/// arrives as two segments (API Gateway Developer Guide, "Create AWS Lambda proxy integrations for HTTP APIs"). The
/// path of the event is used, and not that of the URI which was built from it: in a URI `..` is a step, and `?`
/// begins a query.
pub fn as_sent<B>(mut request: Request<B>) -> Request<B> {
    let raw = request.raw_http_path().to_owned();
    if raw.is_empty() {
        return request;
    }
    let path = without_stage(&raw, stage(&request)).unwrap_or(&raw);
    let path = with_whole_project(path).unwrap_or_else(|| path.to_owned());
    let path = utf8_percent_encode(&path, WRITTEN).to_string();
    // Text after a decoded `?` or `#` was part of the path; no path of the API contains either.
    let query = request.uri().query().filter(|_| !raw.contains(['?', '#']));
    let path = query.map_or_else(|| path.clone(), |query| format!("{path}?{query}"));
    let mut parts = request.uri().clone().into_parts();
    // The result is ASCII and begins with a slash, or it is no path of the API.
    parts.path_and_query = path.parse().ok().or_else(|| Some(PathAndQuery::from_static("/")));
    *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
    request
}

fn stage<B>(request: &Request<B>) -> Option<&str> {
    match request.extensions().get::<RequestContext>()? {
        RequestContext::ApiGatewayV2(context) => context.stage.as_deref(),
        RequestContext::ApiGatewayV1(context) => context.stage.as_deref(),
        _ => None,
    }
}

fn without_stage<'a>(path: &'a str, stage: Option<&str>) -> Option<&'a str> {
    let stage = stage.filter(|stage| *stage != "$default")?;
    path.strip_prefix('/')?.strip_prefix(stage).filter(|rest| rest.starts_with('/'))
}

/// The segment that follows a project in a path. No project or group within a group has this name, so the first one behind the
/// first segment ends the project, whatever comes then: `envs/{env}`, `envs/{env}/schedules/{id}`, `envs/{env}/drift/actions/check`.
const AFTER_PROJECT: &str = "envs";

/// How many segments belong to the project.
fn end_of_project(parts: &[&str]) -> usize {
    if let Some(behind_first) = parts.iter().skip(1).position(|part| *part == AFTER_PROJECT) {
        return behind_first + 1;
    }
    let ends_below =
        parts.len() > 1 && parts.last().is_some_and(|last| BELOW_PROJECT.contains(last));
    parts.len() - usize::from(ends_below)
}

fn with_whole_project(path: &str) -> Option<String> {
    let (org, rest) = path.strip_prefix("/orgs/")?.split_once("/projects/")?;
    let parts: Vec<&str> = rest.split('/').collect();
    let (project, after) = parts.split_at(end_of_project(&parts));
    if org.contains('/') || project.len() == 1 || project.contains(&"") {
        return None;
    }
    let after: String = after.iter().flat_map(|part| ["/", part]).collect();
    Some(format!("/orgs/{org}/projects/{}{after}", project.join("%2F")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_in_groups_is_one_segment_whatever_follows() {
        let cases = [
            ("pay/eu/api", "pay%2Feu%2Fapi"),
            ("pay/api/envs", "pay%2Fapi/envs"),
            ("pay/api/envs/dev", "pay%2Fapi/envs/dev"),
            ("pay/api/envs/envs", "pay%2Fapi/envs/envs"),
            (
                "pay/api/envs/dev/actions/refresh_runner",
                "pay%2Fapi/envs/dev/actions/refresh_runner",
            ),
            ("pay/api/envs/dev/schedules", "pay%2Fapi/envs/dev/schedules"),
            ("pay/api/envs/envs/schedules/envs", "pay%2Fapi/envs/envs/schedules/envs"),
            ("envs/api/envs/dev/schedules/nightly", "envs%2Fapi/envs/dev/schedules/nightly"),
            ("pay/api/envs/dev/drift", "pay%2Fapi/envs/dev/drift"),
            ("pay/api/envs/dev/variables", "pay%2Fapi/envs/dev/variables"),
            ("pay/api/variables", "pay%2Fapi/variables"),
            ("pay/variables/git-credentials", "pay%2Fvariables/git-credentials"),
            ("pay/api/envs/dev/drift/actions/check", "pay%2Fapi/envs/dev/drift/actions/check"),
        ];
        for (given, sent) in cases {
            let path = |rest| format!("/orgs/acme/projects/{rest}");
            assert_eq!(with_whole_project(&path(given)), Some(path(sent)), "{given}");
            assert_eq!(with_whole_project(&path(sent)), None, "{sent} is as it was sent");
        }
        for other in [
            "shop",
            "shop/envs",
            "shop/variables",
            "variables/git-credentials",
            "variables",
            "envs/envs",
            "envs/envs/dev/schedules",
            "shop/envs/dev",
            "",
            "/",
            "a//b",
            "a/",
        ] {
            assert_eq!(
                with_whole_project(&format!("/orgs/acme/projects/{other}")),
                None,
                "{other}"
            );
        }
        for other in ["/orgs/acme/runners/a", "/orgs/a/b/projects/c/d", "/health"] {
            assert_eq!(with_whole_project(other), None, "{other}");
        }
    }

    #[test]
    fn what_the_gateway_has_decoded_names_something_and_does_nothing_else() {
        let sent = |raw: &str, made: &str| {
            let request = Request::builder().uri(made).body(()).unwrap();
            as_sent(request.with_raw_http_path(raw)).uri().to_string()
        };
        let cases = [
            (
                "/orgs/a/env-types/../runners/k",
                "/orgs/a/runners/k",
                "/orgs/a/env-types/../runners/k",
            ),
            ("/orgs/a/runners/k#x", "/orgs/a/runners/k", "/orgs/a/runners/k%23x"),
            ("/orgs/a/runners/k?x=1", "/orgs/a/runners/k?x=1", "/orgs/a/runners/k%3Fx%3D1"),
            ("/orgs/a\\b", "/orgs/a/b", "/orgs/a%5Cb"),
            ("/orgs/a", "/orgs/a?limit=2", "/orgs/a?limit=2"),
            (
                "/orgs/a/projects/p/q/envs",
                "/orgs/a/projects/p/q/envs",
                "/orgs/a/projects/p%2Fq/envs",
            ),
            ("nonsense", "/nonsense", "/"),
        ];
        for (raw, made, expected) in cases {
            assert_eq!(sent(raw, made), expected, "{raw}");
        }
    }

    #[test]
    fn only_the_stage_that_the_gateway_names_is_taken_away() {
        assert_eq!(without_stage("/prod/orgs/a", Some("prod")), Some("/orgs/a"));
        for (path, stage) in [("/orgs/a", "$default"), ("/production/orgs", "prod"), ("/orgs", "o")]
        {
            assert_eq!(without_stage(path, Some(stage)), None, "{path}");
        }
        assert_eq!(without_stage("/prod/orgs", None), None);
    }
}
