//! Catalogues read from files: what is understood, and what is refused by name.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use llm_provider::{Catalog, CatalogFile, InvalidCatalog};

const WHOLE: &str = r#"
[providers.azure]
dialect = "openai_chat"
base_url = "https://{region}.openai.azure.com/openai/deployments/{model}"
region = "west"
api_version = "2024-10-21"
key_header = { name = "api-key", key = "AZURE" }
headers = { x-team = "a" }
drop_stops_bill = true

[providers.gemini]
dialect = "gemini"
base_url = "https://generativelanguage.googleapis.com/v1beta"
key_query = { name = "key", key = "GEMINI" }

[providers.local]
base_url = "http://127.0.0.1:11434/v1"
dialect = "openai_chat"
also_speaks = ["anthropic"]
no_auth = true
old_max_tokens = true
default_max_tokens = 512

[models.fast]
provider = "azure"
name = "gpt-4.1-mini"
context_window = 1_000_000
output_limit = 32_768
images = false
prices = { input = 0.4, output = 1.6 }
refuses = ["temperature"]
"#;

fn read(text: &str) -> Result<Catalog, String> {
    let file: CatalogFile = toml::from_str(text).map_err(|error| error.to_string())?;
    let secret = |name: &str| (name != "UNSET").then(|| format!("secret-of-{name}"));
    Catalog::read(file, secret).map_err(|error: InvalidCatalog| error.to_string())
}

#[test]
fn a_file_is_read_whole_and_shows_no_secret() {
    let catalog = read(WHOLE).unwrap();
    let target = catalog.target("fast").unwrap();
    assert_eq!(target.to_string(), "azure:gpt-4.1-mini");
    let abilities = catalog.abilities(&target).unwrap();
    assert_eq!(abilities.window(), Some(1_000_000));
    assert_eq!(abilities.most_output(), Some(32_768));
    let prices = abilities.price().unwrap();
    assert_eq!(
        (prices.input, prices.cached_input, prices.output),
        (0.4, 0.4, 1.6)
    );
    assert!(catalog.target("slow").is_none());
    let streamed = "azure:gpt-4.1-mini:streaming".parse().unwrap();
    assert!(catalog.abilities(&streamed).is_some());
    let shown = format!("{catalog:?} {:?}", catalog.layer());
    assert!(!shown.contains("secret-of"), "{shown}");
}

#[test]
fn json_is_as_good() {
    let file: CatalogFile = serde_json::from_str(
        r#"{"providers":{"a":{"base_url":"http://h/v1"}},"models":{"m":{"provider":"a","name":"x"}}}"#,
    )
    .unwrap();
    let catalog = Catalog::read(file, |_| None).unwrap();
    assert_eq!(catalog.target("m").unwrap().to_string(), "a:x");
}

#[test]
fn each_error_names_its_field() {
    for (from, to, named) in [
        (
            "region = \"west\"\n",
            "",
            "providers.azure.region: it is missing",
        ),
        (
            "{region}",
            "west",
            "providers.azure.region: base_url has no {region}",
        ),
        (
            "\"AZURE\"",
            "\"UNSET\"",
            "providers.azure.key_header.key: the secret UNSET is not set",
        ),
        (
            "\"api-key\"",
            "\"api key\"",
            "providers.azure.key_header.name:",
        ),
        ("x-team", "\"x team\"", "providers.azure.headers.x team:"),
        ("https://gen", "gen", "providers.gemini.base_url:"),
        (
            "no_auth = true",
            "no_auth = true\nbearer = \"X\"",
            "providers.local.no_auth: one way",
        ),
        (
            "= 512",
            "= 0",
            "providers.local.default_max_tokens: it must be at least 1",
        ),
        (
            "provider = \"azure\"",
            "provider = \"azur\"",
            "models.fast.provider: no provider is named \"azur\"",
        ),
        ("images = false", "image = false", "unknown field `image`"),
        (
            "region = \"west\"",
            "regoin = \"west\"",
            "unknown field `regoin`",
        ),
        ("\"gemini\"", "\"gemni\"", "unknown variant `gemni`"),
        ("= 1_000_000", "= \"much\"", "context_window"),
        ("input = 0.4", "inputs = 0.4", "unknown field `inputs`"),
    ] {
        assert!(WHOLE.contains(from), "{from}");
        let error = read(&WHOLE.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(named), "{error}\nhas no\n{named}");
        assert!(!error.contains("secret-of"), "{error}");
    }
    let twice = format!("{WHOLE}\n[models.again]\nprovider = \"azure\"\nname = \"gpt-4.1-mini\"\n");
    let error = read(&twice).unwrap_err();
    assert_eq!(error, "models.fast.name: it is the model \"again\" already");
}
