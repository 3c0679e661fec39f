//! `cargo lambda deploy` of one function, as docs/install-aws.md describes it, against moto: it replaces the code of
//! the stack's function, and changes no setting of the template.

use crate::harness::programs;
use canyon_cloud::cloud::FUNCTIONS;
use canyon_cloud::region::{REGION, Region};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// A function's configuration in moto.
fn configuration(moto: &str, name: &str) -> Value {
    let program = "import boto3, json, sys; \
         c = boto3.client('lambda', endpoint_url=sys.argv[1], region_name=sys.argv[2]); \
         print(json.dumps(c.get_function_configuration(FunctionName=sys.argv[3]), default=str))";
    let output = with_credentials(Command::new(programs::given("CANYON_TEST_AWS_PYTHON")))
        .args(["-c", program, moto, REGION, name])
        .output()
        .unwrap();
    serde_json::from_slice(&done(output).stdout).unwrap()
}

fn with_credentials(mut command: Command) -> Command {
    command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
    command
}

#[track_caller]
fn done(output: Output) -> Output {
    let (said, error) = (&output.stdout, &output.stderr);
    let said = format!("{}{}", String::from_utf8_lossy(said), String::from_utf8_lossy(error));
    assert!(output.status.success(), "{said}");
    output
}

/// Puts a function's program where `cargo lambda build` puts it. Debug information is stripped: packing it takes
/// longer than the test.
fn lay_out(folder: &Path, name: &str) {
    let place = folder.join(name);
    fs::create_dir(&place).unwrap();
    let mut strip = Command::new("strip");
    strip.arg(programs::built().join(name)).arg("-o").arg(place.join("bootstrap"));
    done(strip.output().expect("strip is installed, as is the linker"));
}

#[test]
fn one_function_gets_other_code_and_nothing_else_changes() {
    let region = Region::shared();
    let stack = region.stack("deployed");
    let moto = region.moto.url();
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for name in FUNCTIONS {
        lay_out(folder.path(), name);
        let full = stack["functions"][name]["name"].as_str().unwrap();
        let before = configuration(moto, full);
        let deploy = with_credentials(Command::new(programs::given("CANYON_TEST_CARGO_LAMBDA")))
            .current_dir(root)
            .env("AWS_ENDPOINT_URL", moto)
            .env("AWS_REGION", REGION)
            .args(["lambda", "deploy", "--binary-name", name, "--lambda-dir"])
            .arg(folder.path())
            .arg(full)
            .output();
        done(deploy.unwrap());
        let after = configuration(moto, full);
        assert_ne!(before["CodeSha256"], after["CodeSha256"], "{name}");
        assert!(after["CodeSize"].as_u64() > Some(1_000_000), "{name}: {}", after["CodeSize"]);
        for kept in ["Environment", "Role", "Runtime", "Handler", "Timeout", "MemorySize"] {
            assert!(!before[kept].is_null());
            assert_eq!(before[kept], after[kept], "{name}: {kept}");
        }
    }
}
