use super::*;
use crate::front::PutEntry;
use crate::target::TargetError;
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(10);

/// A target that records its payloads, and is unreachable for the first so many calls.
#[derive(Default)]
struct Inbox {
    got: Mutex<Vec<String>>,
    refusals: Mutex<u32>,
}

impl Inbox {
    fn got(&self) -> Vec<Value> {
        lock(&self.got).iter().map(|text| serde_json::from_str(text).unwrap()).collect()
    }
}

#[async_trait]
impl Target for Inbox {
    async fn invoke(&self, payload: Vec<u8>) -> Result<Vec<u8>, TargetError> {
        let mut refusals = lock(&self.refusals);
        if *refusals > 0 {
            *refusals -= 1;
            return Err(TargetError::NotStarted("Rate Exceeded.".to_owned()));
        }
        lock(&self.got).push(String::from_utf8(payload).unwrap());
        Ok(Vec::new())
    }
}

fn rule(name: &str, change: Value) -> Value {
    let mut rule = json!({"name": name, "targets": [{"arn": "arn:f", "function": "passed over"}]});
    let Value::Object(members) = change else { panic!("an object, not {change}") };
    for (name, value) in members {
        rule[name] = value;
    }
    rule
}

fn start(rules: &Value, inbox: &Arc<Inbox>) -> Result<EventBus, String> {
    let target: Arc<dyn Target> = inbox.clone();
    EventBus::start(BusSettings {
        account: "123456789012".to_owned(),
        region: "eu-west-1".to_owned(),
        rules: Deserialize::deserialize(rules).unwrap(),
        targets: BTreeMap::from([("arn:f".to_owned(), target)]),
        scale: 1_000.0,
        seed: 11,
    })
}

#[tokio::test]
async fn an_event_reaches_the_rules_of_its_bus_that_match_and_the_archive_in_any_case() {
    let inbox = Arc::new(Inbox::default());
    let bus = start(&json!([
        rule("ecs", json!({"bus": "default", "pattern": {"source": ["aws.ecs"], "detail": {"lastStatus": ["STOPPED"]}}})),
        rule("deploy", json!({"bus": "arn:aws:events:eu-west-1:123456789012:event-bus/canyon",
                              "pattern": {"detail-type": [{"prefix": "canyon.deployment."}]}})),
        rule("off", json!({"state": "DISABLED", "pattern": {"source": [{"exists": true}]}})),
    ]), &inbox).unwrap();
    bus.put("default", json!({"source": "aws.ecs", "detail": {"lastStatus": "STOPPED"}}));
    bus.put("default", json!({"source": "aws.ecs", "detail": {"lastStatus": "RUNNING"}}));
    bus.put("default", json!({"detail-type": "canyon.deployment.requested"}));
    let other = json!({"detail-type": "canyon.deployment.requested", "account": "999999999999", "id": "e-7"});
    assert_eq!(bus.put("canyon", other), "e-7");
    bus.settled(LIMIT).await.unwrap();
    let mut got = inbox.got();
    got.sort_by_key(|event| event["source"].to_string());
    assert_eq!(got.len(), 2, "{got:?}");
    assert_eq!((&got[0]["id"], &got[0]["account"]), (&json!("e-7"), &json!("999999999999")));
    assert_eq!((&got[1]["version"], &got[1]["account"]), (&json!("0"), &json!("123456789012")));
    assert!(got[1]["time"].as_str().unwrap().ends_with('Z') && got[1]["id"].is_string());
    assert_eq!(bus.archive().len(), 4);
    assert_eq!(bus.published("canyon.deployment.requested").len(), 2);
}

#[tokio::test]
async fn events_of_functions_arrive_through_the_front() {
    let inbox = Arc::new(Inbox::default());
    let bus = start(
        &json!([rule("out", json!({"bus": "canyon", "pattern": {"source": ["canyon"]}}))]),
        &inbox,
    )
    .unwrap();
    bus.intake()(PutEntry {
        function: "launcher".to_owned(),
        id: "e-1".to_owned(),
        bus: "canyon".to_owned(),
        entry: json!({"Source": "canyon", "DetailType": "deployment.running", "Detail": "{\"schema_version\":1}",
                      "Time": 1_790_000_000, "Resources": ["arn:d"]}),
    });
    bus.settled(LIMIT).await.unwrap();
    assert_eq!(
        inbox.got(),
        [json!({
            "version": "0", "id": "e-1", "detail-type": "deployment.running", "source": "canyon",
            "account": "123456789012", "time": "2026-09-21T14:13:20Z", "region": "eu-west-1",
            "resources": ["arn:d"], "detail": {"schema_version": 1},
        })]
    );
    assert_eq!(bus.archive()[0].function.as_deref(), Some("launcher"));
}

#[tokio::test]
async fn a_target_gets_the_text_that_its_transformer_makes() {
    let inbox = Arc::new(Inbox::default());
    let with = |template: &str, paths: Value| {
        json!({"pattern": {"source": ["s"]}, "targets": [{"Arn": "arn:f",
            "InputTransformer": {"InputPathsMap": paths, "InputTemplate": template}}]})
    };
    let bus = start(&json!([
        rule("whole", with("{\"rule\": \"<aws.events.rule-arn>\", \"name\": <aws.events.rule-name>, \"event\": <aws.events.event.json>}", json!({}))),
        rule("parts", with("{\"text\": \"it's <word> \\\"<n>\\\"\", \"list\": <list>, \"one\": <one>, \"none\": <none>, \"envelope\": <aws.events.event>}",
            json!({"word": "$.detail.word", "n": "$.detail.n", "list": "$.detail.list", "one": "$.detail.list[1]", "none": "$.detail.none"}))),
        rule("constant", json!({"pattern": {"source": ["s"]}, "targets": [{"arn": "arn:f", "Input": "{\"constant\": 1}"}]})),
        rule("path", json!({"pattern": {"source": ["s"]}, "targets": [{"arn": "arn:f", "InputPath": "$.detail"}]})),
    ]), &inbox).unwrap();
    let detail = json!({"word": "a \"b\"", "n": 5, "list": [1, "two"]});
    bus.put("default", json!({"source": "s", "id": "i", "detail": detail}));
    bus.settled(LIMIT).await.unwrap();
    let got = inbox.got();
    let of = |name: &str| got.iter().find(|one| one.get(name).is_some()).unwrap();
    let whole = of("rule");
    assert_eq!(whole["rule"], "arn:aws:events:eu-west-1:123456789012:rule/whole");
    assert_eq!((&whole["name"], &whole["event"]["detail"]), (&json!("whole"), &detail));
    let parts = of("text");
    assert_eq!(
        (&parts["text"], &parts["one"], &parts["none"]),
        (&json!("it's a \"b\" \"5\""), &json!("two"), &json!(""))
    );
    assert_eq!((&parts["list"], parts["envelope"].get("detail")), (&json!([1, "two"]), None));
    assert!(got.contains(&json!({"constant": 1})) && got.contains(&detail));
}

#[tokio::test]
async fn an_unreachable_target_is_retried_and_its_queue_gets_undelivered_events() {
    let inbox = Arc::new(Inbox::default());
    let targets = json!([{"arn": "arn:f", "dlq": "arn:dead", "retry_policy":
        {"MaximumRetryAttempts": 3, "MaximumEventAgeInSeconds": 86_400}}]);
    let bus = start(
        &json!([rule("r", json!({"pattern": {"source": ["s"]}, "targets": targets}))]),
        &inbox,
    )
    .unwrap();
    *lock(&inbox.refusals) = 3;
    bus.put("default", json!({"source": "s", "id": "late"}));
    bus.settled(LIMIT).await.unwrap();
    assert_eq!((inbox.got().len(), bus.dead_letters().len()), (1, 0));
    bus.disturb(BusDisturbance { unreachable: 1.0, ..BusDisturbance::default() });
    bus.put("default", json!({"source": "s", "id": "dead"}));
    bus.settled(LIMIT).await.unwrap();
    let dead = bus.dead_letters();
    assert_eq!((inbox.got().len(), dead.len()), (1, 1));
    assert_eq!((dead[0].queue.as_deref(), dead[0].attempts), (Some("arn:dead"), 4));
    assert_eq!(dead[0].condition, "MaximumRetryAttempts");
    assert!(String::from_utf8_lossy(&dead[0].payload).contains("\"dead\""));
}

#[tokio::test]
async fn a_test_can_have_events_repeated_reordered_or_lost() {
    let inbox = Arc::new(Inbox::default());
    let bus = start(&json!([rule("r", json!({"pattern": {"source": ["s"]}}))]), &inbox).unwrap();
    let shuffle = Duration::from_millis(50);
    bus.disturb(BusDisturbance { copies: 3, shuffle, ..BusDisturbance::default() });
    for number in 0..30 {
        bus.put("default", json!({"source": "s", "detail": {"number": number}}));
    }
    bus.settled(LIMIT).await.unwrap();
    let order: Vec<_> =
        inbox.got().iter().map(|event| event["detail"]["number"].as_u64().unwrap()).collect();
    assert_eq!(order.len(), 90);
    assert!(!order.is_sorted());
    assert!((0..30).all(|number| order.iter().filter(|one| **one == number).count() == 3));
    bus.disturb(BusDisturbance { drop: 1.0, ..BusDisturbance::default() });
    bus.put("default", json!({"source": "s"}));
    bus.settled(LIMIT).await.unwrap();
    assert_eq!((inbox.got().len(), bus.archive().len(), bus.dead_letters().len()), (90, 31, 0));
}

#[tokio::test]
async fn a_schedule_fires_on_request_and_then_by_itself() {
    let inbox = Arc::new(Inbox::default());
    let bus =
        start(&json!([rule("sweep", json!({"schedule": "rate(1 minute)"}))]), &inbox).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(inbox.got().len(), 0, "schedules are off until a test switches them on");
    bus.fire_schedules();
    bus.settled(LIMIT).await.unwrap();
    let got = inbox.got();
    assert_eq!(
        (&got[0]["detail-type"], &got[0]["source"]),
        (&json!("Scheduled Event"), &json!("aws.events"))
    );
    assert_eq!(got[0]["resources"], json!(["arn:aws:events:eu-west-1:123456789012:rule/sweep"]));
    // A minute lasts 60 ms here.
    bus.run_schedules(true);
    let deadline = tokio::time::Instant::now() + LIMIT;
    while inbox.got().len() < 4 {
        assert!(tokio::time::Instant::now() < deadline, "it does not fire");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_rule_that_is_not_implemented_is_refused() {
    let inbox = Arc::new(Inbox::default());
    for change in [
        json!({}),
        json!({"pattern": {"source": "s"}}),
        json!({"schedule": "cron(0 * * * ? *)"}),
        json!({"schedule": "rate(1 minutes)"}),
        json!({"pattern": {"source": ["s"]}, "targets": [{"arn": "arn:nobody"}]}),
        json!({"pattern": {"source": ["s"]}, "targets": [{"arn": "arn:f", "InputPath": "detail"}]}),
        json!({"pattern": {"source": ["s"]}, "targets": [{"arn": "arn:f", "InputTransformer": {"InputTemplate": "<x>"}}]}),
    ] {
        assert!(start(&json!([rule("r", change.clone())]), &inbox).is_err(), "{change}");
    }
}
