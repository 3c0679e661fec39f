use super::*;
use serde_json::json;

fn place() -> ProfileContext {
    ProfileContext {
        project: "payments/api".parse().unwrap(),
        environment: "eu-1".parse().unwrap(),
        env_type: "production".parse().unwrap(),
        project_profile: None,
    }
}

#[test]
fn a_project_names_the_profile_if_the_runner_asks_it() {
    let runner: ProfileName = "eu-${project.profile}".parse().unwrap();
    assert!(runner.asks_the_project());
    let variables = Inputs::from([("size".to_owned(), "large".into())]);
    let none = runner.interpolate(&place(), &variables).unwrap_err().to_string();
    assert!(none.contains("canyon update project payments/api --set=profile="), "{none}");
    let own = ProfileName::of_project("${project.id}-${env_type.id}_${var.size}").unwrap();
    let place = ProfileContext { project_profile: Some(own), ..place() };
    let name = runner.interpolate(&place, &variables).unwrap();
    assert_eq!(name, "eu-payments/api-production_large");
    let itself = ProfileName::of_project("a-${project.profile}").unwrap_err().to_string();
    assert!(itself.contains("that is this name"), "{itself}");
}

#[test]
fn a_name_may_be_each_profile_that_its_text_around_the_references_allows() {
    for (name, profile, may_be) in [
        ("staging", "staging", true),
        ("staging", "production", false),
        ("${environment.type}", "production", true),
        ("eu-${environment.type}", "eu-production", true),
        ("eu-${environment.type}", "us-production", false),
        ("${project.id}-${var.region}-x", "api-eu-x", true),
        ("${project.id}-${var.region}-x", "api-eu-y", false),
        ("ab${var.region}bc", "abc", false),
        ("${environment.type}-prod-${var.region}", "dev-eu", false),
        ("${environment.type}-prod-${var.region}", "dev-prod-eu", true),
        ("${var.a}-${var.b}-${var.c}", "x-y", false),
        ("${var.a}-${var.b}-${var.c}", "x-y-z-z", true),
        ("x${var.a}x${var.b}x", "xaxx", false),
        ("${var.a}${var.b}", "x", false),
        ("${var.a}${var.b}", "xy", true),
    ] {
        let name: ProfileName = name.parse().unwrap();
        assert_eq!(name.may_be(&profile.parse().unwrap()), may_be, "{name:?} {profile}");
    }
}

#[test]
fn the_environments_type_has_two_spellings() {
    for name in ["${project.id}-${environment.type}", "${project.id}-${env_type.id}"] {
        let parsed: ProfileName = name.parse().unwrap();
        assert_eq!(
            parsed.interpolate(&place(), &Inputs::new()).unwrap(),
            "payments/api-production"
        );
        assert_eq!(parsed.as_str(), name, "it stays as it was written");
    }
    assert!("${env_type}".parse::<ProfileName>().is_err());
}

#[test]
fn a_reference_names_a_variable_as_terraform_writes_it() {
    for good in ["${var.my_region}", "${var.a-b}", "${var._a1}"] {
        assert!(good.parse::<ProfileName>().is_ok(), "{good}");
    }
    for bad in ["${var.1a}", "${var.a b}", "${var.a.b}", "${var.}", "${var.a$}"] {
        assert!(bad.parse::<ProfileName>().is_err(), "{bad}");
    }
}

#[test]
fn every_reference_is_replaced_by_its_part_of_the_target_or_by_a_variable() {
    let variables = json!({ "org": "acme", "n": 3, "on": true, "long": "x".repeat(300),
        "list": [1], "empty": "", "odd": "hunter2 $(x)", "nested": "${project.id}" });
    let variables: Inputs = serde_json::from_value(variables).unwrap();
    let computed =
        |name: &str| match name.parse::<ProfileName>().unwrap().interpolate(&place(), &variables) {
            Ok(name) => name,
            Err(error) => error.to_string(),
        };
    let all = "a-${project.id}_${environment.id}.${environment.type}/${var.org}${var.n}${var.on}";
    assert_eq!(computed(all), "a-payments/api_eu-1.production/acme3true");
    assert_eq!(computed("plain"), "plain");
    assert!(computed("${var.absent}").contains("`absent`, which this deployment does not set"));
    assert!(computed("${var.long}").contains("more than 255 bytes"));
    // The value of a variable is never read as a reference, and never repeated.
    for name in ["${var.list}", "${var.empty}", "${var.odd}", "${var.nested}"] {
        let error = computed(name);
        assert!(
            error.contains("cannot be part of the name") && !error.contains("hunter2"),
            "{error}"
        );
    }
}

#[test]
fn a_name_that_could_never_be_computed_is_refused_when_it_is_given() {
    use ProfileNameError as E;
    let long = "x".repeat(256);
    let cases = [
        ("", E::Length),
        (long.as_str(), E::Length),
        ("a b", E::Character),
        ("$x", E::Character),
        ("a}", E::Character),
        ("${project.id", E::Open),
        ("${}", E::Reference),
        ("${project}", E::Reference),
        ("${ project.id }", E::Reference),
        ("${var.}", E::Reference),
        ("${var.1a}", E::Reference),
        ("${var.a.b}", E::Reference),
        ("${${project.id}}", E::Reference),
    ];
    for (given, fault) in cases {
        assert_eq!(given.parse::<ProfileName>().unwrap_err(), fault, "{given}");
    }
}
