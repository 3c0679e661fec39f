//! The metrics, in the text format of Prometheus ("Exposition formats").

use super::Health;
use crate::status::Numbers;
use std::fmt::Write as _;

/// A metric: its name, type and help, and its value in one organization.
type Metric = (&'static str, &'static str, &'static str, fn(&Numbers) -> Option<String>);

const METRICS: [Metric; 8] = [
    ("polls_total", "counter", "Requests for work that were answered.", |of| {
        Some(of.polls.to_string())
    }),
    ("errors_total", "counter", "Errors.", |of| Some(of.errors.to_string())),
    ("jobs_taken_total", "counter", "Jobs that were taken.", |of| Some(of.taken.to_string())),
    ("jobs_running", "gauge", "Jobs that run.", |of| Some(of.running.to_string())),
    ("session", "gauge", "The number of the session; 0 without one.", |of| {
        Some(of.session.to_string())
    }),
    ("ready", "gauge", "1 if Canyon offers it jobs.", |of| Some(u64::from(of.ready).to_string())),
    ("uptime_seconds", "gauge", "Seconds since the start.", |of| {
        Some(of.uptime_seconds.to_string())
    }),
    ("last_answer_seconds", "gauge", "Seconds since Canyon's last answer.", |of| {
        of.silence.map(|silence| format!("{silence:.3}"))
    }),
];

/// All metrics. If the agent serves several organizations, each has its own values, with the label `org`.
pub(super) fn text(health: &Health) -> String {
    let mut text = format!(
        "# HELP canyon_agent_info The program.\n# TYPE canyon_agent_info gauge\n\
         canyon_agent_info{{version=\"{}\"}} 1\n",
        env!("CARGO_PKG_VERSION")
    );
    let is_shared = health.0.len() > 1;
    let label = |org| if is_shared { format!("{{org=\"{org}\"}}") } else { String::new() };
    let rows: Vec<_> =
        health.0.iter().map(|(org, status)| (label(org), status.numbers())).collect();
    for (name, kind, help, value) in METRICS {
        let name = format!("canyon_agent_{name}");
        let samples: String = rows
            .iter()
            .filter_map(|(label, numbers)| Some(format!("{name}{label} {}\n", value(numbers)?)))
            .collect();
        if !samples.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{samples}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Status;
    use std::sync::Arc;

    fn metrics(of: &[(&str, &Arc<Status>)]) -> String {
        let mut health = Health::default();
        for (org, status) in of {
            health.add(&org.parse().unwrap(), (*status).clone());
        }
        text(&health)
    }

    #[test]
    fn metrics_have_the_format_of_prometheus() {
        let status = Arc::new(Status::default());
        let text = || metrics(&[("acme", &status)]);
        assert!(!text().contains("last_answer"), "there was none");
        status.answered(Some(7));
        status.polled();
        status.polled();
        status.add_taken(3);
        status.set_running(2);
        status.record_error("x");
        let text = text();
        assert!(text.ends_with('\n'));
        let lines: Vec<_> = text.lines().collect();
        let mut samples = Vec::new();
        for three in lines.chunks(3) {
            let [help, kind, sample] = three else { panic!("{three:?}") };
            let (name, value) = sample.split_once(' ').unwrap();
            let bare = name.split('{').next().unwrap();
            assert!(help.starts_with(&format!("# HELP {bare} ")), "{help}");
            let expected = if bare.ends_with("_total") { "counter" } else { "gauge" };
            assert_eq!(*kind, format!("# TYPE {bare} {expected}"));
            value.parse::<f64>().unwrap();
            samples.push(*sample);
        }
        for expected in [
            "canyon_agent_polls_total 2",
            "canyon_agent_errors_total 1",
            "canyon_agent_jobs_taken_total 3",
            "canyon_agent_jobs_running 2",
            "canyon_agent_session 7",
            "canyon_agent_ready 1",
        ] {
            assert!(samples.contains(&expected), "{expected}: {samples:?}");
        }
        let last_answer = |sample: &&str| sample.starts_with("canyon_agent_last_answer_seconds ");
        assert!(samples.iter().any(last_answer), "{samples:?}");
    }

    #[test]
    fn each_organization_of_a_shared_agent_has_its_own_values() {
        let (busy, idle) = (Arc::new(Status::default()), Arc::new(Status::default()));
        busy.set_running(2);
        let text = metrics(&[("acme", &busy), ("beta", &idle)]);
        let of_jobs = "# TYPE canyon_agent_jobs_running gauge\n\
                       canyon_agent_jobs_running{org=\"acme\"} 2\n\
                       canyon_agent_jobs_running{org=\"beta\"} 0\n";
        assert!(text.contains(of_jobs), "{text}");
    }
}
