use super::*;
use crate::context::SignIn;
use secrecy::ExposeSecret as _;

fn stored(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    fs::write(&path, text).unwrap();
    (folder, path)
}

fn faults(text: &str) -> String {
    let (_folder, path) = stored(text);
    let error = ConfigFile::read(&path).unwrap_err().to_string();
    error.split_once("are invalid: ").unwrap().1.replace("; `", "\n`")
}

#[test]
fn a_file_of_an_earlier_version_is_one_context_and_gets_the_form_of_today_at_the_next_write() {
    let (_folder, path) = stored("url: http://a\norg: acme\ntoken: secret\n");
    let file = ConfigFile::read(&path).unwrap();
    assert_eq!(file.current.unwrap().as_str(), "default");
    assert!(fs::read_to_string(&path).unwrap().starts_with("url:"), "reading changes nothing");
    ConfigFile::change(&path, |_| Ok(())).unwrap();
    insta::assert_snapshot!(fs::read_to_string(&path).unwrap(), @"
    contexts:
      default:
        org: acme
        token: secret
        url: http://a
    current_context: default
    ");
    // The logins of earlier versions wrote null for what was absent.
    let (_folder, path) = stored("url: http://a\norg: null\ntoken: null\n");
    let file = ConfigFile::read(&path).unwrap();
    assert!(file.contexts[&ContextName::of_old_file()].token.is_none());
}

#[test]
fn every_part_of_a_context_is_read_as_it_was_written() {
    let (_folder, path) = stored("");
    let context = Context {
        url: Some("https://a.example/".to_owned()),
        org: Some("acme".to_owned()),
        token: Some("secret: # \"'".into()),
        token_expires_at: Some("2026-01-31T12:00:00Z".parse().unwrap()),
        sign_in: Some(SignIn {
            identity_provider: "okta".to_owned(),
            issuer: "https://id.example".to_owned(),
            client_id: "canyon".to_owned(),
            subject: Some("0123".to_owned()),
            refresh_token: Some("no".into()),
        }),
    };
    // Names that YAML would read as something else than a text, if a writer did not take care.
    for name in ["80", "no", "null", "1e3", "acme@a:8080", "2026-01-31", "0x1F", "a---"] {
        ConfigFile::change(&path, |file| {
            file.current = Some(name.parse().unwrap());
            file.contexts.insert(name.parse().unwrap(), context.clone());
            Ok(())
        })
        .unwrap();
        let file = ConfigFile::read(&path).unwrap();
        assert_eq!(file.current.unwrap().as_str(), name);
        let read = &file.contexts[&name.parse().unwrap()];
        assert_eq!(read.to_value(), context.to_value());
        assert_eq!(read.token.as_ref().unwrap().expose_secret(), "secret: # \"'");
    }
}

#[test]
fn every_fault_is_named_with_its_key_and_no_value_is_shown() {
    insta::assert_snapshot!(
            faults(
                "url: s3cret\ncurrent_contxt: a\ncontexts:\n  a: {tokn: s3cret, token_expires_at: s3cret}\n  \
                 b: s3cret\n  'c d': {url: [s3cret], sign_in: {issuer: 1}}\n"
            ),
    @"
        `url` belongs to a context: write it as `contexts.NAME.url`
        `current_contxt` is not a setting; did you mean `current_context`?
        `contexts.a.tokn` is not a setting; did you mean `token`?
        `contexts.a.token_expires_at` is not a time such as 2026-01-31T12:00:00Z
        `contexts.b` is not an object with keys
        `contexts.c d.url` is not a text: put it in quotes
        `contexts.c d.sign_in.identity_provider` is missing
        `contexts.c d.sign_in.issuer` is not a text: put it in quotes
        `contexts.c d.sign_in.client_id` is missing
        `contexts.c d`: a context's name has letters, digits and `._@:-`, begins with a letter or digit, and has at most 128 characters
        "
        );
    insta::assert_snapshot!(faults("current_context: 'a b'\ncontexts: [s3cret]\n"), @"
    `current_context`: a context's name has letters, digits and `._@:-`, begins with a letter or digit, and has at most 128 characters
    `contexts` is not an object with keys
    ");
}

#[test]
fn a_change_that_fails_leaves_the_file_as_it_was() {
    let (_folder, path) = stored("# mine\nurl: http://a\n");
    let failed: Result<(), _> = ConfigFile::change(&path, |_| Err(CliError::NotConfirmed));
    assert!(failed.is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "# mine\nurl: http://a\n");
}
