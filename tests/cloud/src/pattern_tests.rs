use super::*;
use serde_json::json;

fn takes(pattern: &Value, event: &Value) -> bool {
    Pattern::read(pattern).unwrap().matches(event)
}

#[test]
fn a_pattern_matches_as_the_documentation_says() {
    let event = json!({
        "source": "aws.ecs", "detail-type": "ECS Task State Change", "count": 5, "empty": "", "none": null,
        "resources": ["arn:a", "arn:b"],
        "detail": {"lastStatus": "STOPPED", "image": "Photo.PNG", "stopCode": null,
                   "containers": [{"name": "runner", "exitCode": 1}, {"name": "side", "exitCode": 0}]},
    });
    for (pattern, expected) in [
        (json!({"source": ["aws.ecs"]}), true),
        (json!({"source": ["aws.ec2", "aws.ecs"]}), true),
        (json!({"source": ["aws.ecs"], "count": [6]}), false),
        (json!({"detail": {"lastStatus": ["STOPPED"]}}), true),
        (json!({"detail": {"lastStatus": ["RUNNING"]}}), false),
        (json!({"detail": {"missing": ["STOPPED"]}}), false),
        (json!({"resources": ["arn:b"]}), true),
        (json!({"resources": ["arn:c"]}), false),
        (json!({"none": [null]}), true),
        (json!({"missing": [null]}), false),
        (json!({"empty": [""]}), true),
        (json!({"source": [{"prefix": "aws."}]}), true),
        (json!({"source": [{"prefix": "my."}]}), false),
        (json!({"detail": {"image": [{"suffix": ".PNG"}]}}), true),
        (json!({"detail": {"image": [{"suffix": {"equals-ignore-case": ".png"}}]}}), true),
        (json!({"detail": {"image": [{"equals-ignore-case": "photo.png"}]}}), true),
        (json!({"detail": {"image": [{"wildcard": "Ph*.PNG"}]}}), true),
        (json!({"detail": {"image": [{"wildcard": "Ph*.GIF"}]}}), false),
        (json!({"source": [{"anything-but": "aws.ecs"}]}), false),
        (json!({"source": [{"anything-but": ["a", "b"]}]}), true),
        (json!({"missing": [{"anything-but": ["a", "b"]}]}), false),
        (json!({"source": [{"anything-but": {"prefix": "aws."}}]}), false),
        (json!({"source": [{"anything-but": {"suffix": [".x", ".ecs"]}}]}), false),
        (json!({"count": [{"numeric": [">", 0, "<=", 5]}]}), true),
        (json!({"count": [{"numeric": ["<", 5]}]}), false),
        (json!({"count": [{"numeric": ["=", 5]}]}), true),
        (json!({"count": ["5"]}), false),
        (json!({"source": [{"exists": true}]}), true),
        (json!({"missing": [{"exists": false}]}), true),
        (json!({"none": [{"exists": true}]}), true),
        // Only leaves exist.
        (json!({"detail": [{"exists": true}]}), false),
        (json!({"detail": {"containers": {"name": ["runner"], "exitCode": [1]}}}), true),
        (json!({"detail": {"containers": {"name": ["runner"], "exitCode": [0]}}}), false),
        (json!({"$or": [{"source": ["x"]}, {"count": [{"numeric": [">=", 5]}]}]}), true),
        (json!({"source": ["aws.ecs"], "$or": [{"source": ["x"]}, {"count": [1]}]}), false),
    ] {
        assert_eq!(takes(&pattern, &event), expected, "{pattern}");
    }
}

#[test]
fn a_filter_of_a_stream_reads_dynamodb_values_as_the_strings_that_they_are() {
    let record = json!({"eventName": "INSERT", "dynamodb": {
        "Keys": {"pk": {"S": "org#1"}}, "NewImage": {"wake": {"BOOL": true}, "n": {"N": "5"}}}});
    for (pattern, expected) in [
        (
            json!({"eventName": ["INSERT", "MODIFY"], "dynamodb": {"NewImage": {"wake": {"BOOL": [true]}}}}),
            true,
        ),
        (json!({"eventName": ["REMOVE"]}), false),
        (json!({"dynamodb": {"NewImage": {"wake": {"BOOL": [false]}}}}), false),
        (json!({"dynamodb": {"NewImage": {"n": {"N": ["5"]}}}}), true),
        (json!({"dynamodb": {"NewImage": {"n": {"N": [{"numeric": ["=", 5]}]}}}}), false),
        (json!({"dynamodb": {"Keys": {"pk": {"S": [{"prefix": "org#"}]}}}}), true),
        (json!({"dynamodb": {"NewImage": {"due": {"S": [{"exists": false}]}}}}), true),
        (json!({"dynamodb": {"NewImage": {"due": [{"exists": false}]}}}), true),
    ] {
        assert_eq!(takes(&pattern, &record), expected, "{pattern}");
    }
}

#[test]
fn an_unknown_pattern_is_refused_instead_of_ignored() {
    for pattern in [
        json!([]),
        json!({}),
        json!({"a": "b"}),
        json!({"a": []}),
        json!({"a": {}}),
        json!({"a": [["b"]]}),
        json!({"a": [{"cidr": "10.0.0.0/8"}]}),
        json!({"a": [{"numeric": ["~", 1]}]}),
        json!({"a": [{"numeric": []}]}),
        json!({"a": [{"prefix": 1}]}),
        json!({"a": [{"exists": "yes"}]}),
        json!({"a": [{"anything-but": []}]}),
    ] {
        assert!(Pattern::read(&pattern).is_err(), "{pattern} was taken");
    }
    assert!(Pattern::parse("{").is_err());
}
