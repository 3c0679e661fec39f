//! A container job without any crate: "makes" a bucket, and tells its name. Build it as `scripts/demo` does.

use std::{env, error::Error, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let variable = |name: &str| env::var(name).map_err(|_| format!("{name} is not set"));
    let bucket = format!("{}-{}", variable("CANYON_PROJECT")?, variable("CANYON_ENVIRONMENT")?);
    // JSON; a real program reads it with serde.
    let inputs = fs::read_to_string(variable("RESOURCE_INPUTS_FILE")?)?;
    match variable("ACTION")?.as_str() {
        "create" => {
            println!("creates bucket {bucket} with {inputs}");
            fs::write(variable("OUTPUTS_FILE")?, format!(r#"{{"bucket": "{bucket}"}}"#))?;
            fs::write(variable("SECRET_OUTPUTS_FILE")?, r#"{"key": "s3cret-key-of-the-bucket"}"#)?;
        }
        "destroy" => println!("destroys bucket {bucket}"),
        other => {
            let reason = format!("ACTION is {other}: this program creates and destroys");
            fs::write(variable("ERROR_FILE")?, &reason)?;
            return Err(reason.into());
        }
    }
    Ok(())
}
