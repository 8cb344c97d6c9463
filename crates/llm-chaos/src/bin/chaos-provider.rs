//! A fake LLM provider that misbehaves on cue. `chaos-provider --help` says how.

use std::error::Error;
use std::io::Write;
use std::net::SocketAddr;

use llm_chaos::{ChaosProvider, Count, Fault, Pace, Prefill, Script, Spread};

const HELP: &str = "\
A fake LLM provider on a real socket that misbehaves on cue.

Usage: chaos-provider --listen ADDR[=NAME] [--listen ...] [options]

  --listen ADDR[=NAME]  address, and the name in answers and in scripts (repeatable)
  --name NAME           name of the providers that --listen gives none [chaos]
  --script FILE         TOML or JSON; each provider plays the phases of its name
  --speed FACTOR        play the script this many times as fast [1]
  --first-token TIME    time to the first token [5ms]; a script's own pace goes before
  --token-gap TIME      time between tokens [1ms]; likewise
  --tokens N            tokens of an answer [60]; likewise
  --prefill HOW         continue, restart or refuse a trailing assistant message [continue]
  --api-key KEY         answer every other key with 401
  --seed N              seed of every draw [0]
  --faults              list the faults and exit
  --help                this text

Speaks POST /v1/chat/completions, /v1/responses and /v1/messages, and GET /v1/models.
The model `fault-NAME` asks for a fault; `fault-cut?after_tokens=5&times=1` sets parameters.
Control: POST /_chaos/script, /_chaos/reset, /_chaos/black_hole; GET /_chaos/log, /_chaos/health.
";

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run())
}

async fn run() -> Result<(), Box<dyn Error>> {
    let Some(options) = Options::parse()? else {
        return Ok(());
    };
    let mut running = Vec::new();
    for (addr, name) in &options.listen {
        let builder = ChaosProvider::builder()
            .name(name.as_ref().unwrap_or(&options.name))
            .pace(options.pace)
            .seed(options.seed)
            .prefill(options.prefill)
            .script(options.script.clone());
        let builder = match &options.api_key {
            Some(key) => builder.api_key(key),
            None => builder,
        };
        let provider = builder
            .start_on(*addr)
            .await
            .map_err(|error| format!("--listen {addr}: {error}"))?;
        let name = name.as_ref().unwrap_or(&options.name);
        writeln!(
            std::io::stdout(),
            "{name} listens on {}",
            provider.base_url()
        )?;
        running.push(provider);
    }
    // All clocks start together.
    running.iter().for_each(ChaosProvider::reset);
    tokio::signal::ctrl_c().await?;
    Ok(())
}

struct Options {
    listen: Vec<(SocketAddr, Option<String>)>,
    name: String,
    script: Script,
    pace: Pace,
    prefill: Prefill,
    api_key: Option<String>,
    seed: u64,
}

impl Options {
    /// `None` if there is nothing to run.
    fn parse() -> Result<Option<Self>, Box<dyn Error>> {
        use lexopt::prelude::{Long, ValueExt};

        let mut options = Self {
            listen: Vec::new(),
            name: "chaos".to_owned(),
            script: Script::default(),
            pace: Pace::default(),
            prefill: Prefill::default(),
            api_key: None,
            seed: 0,
        };
        let mut speed = 1.0;
        let mut args = lexopt::Parser::from_env();
        while let Some(arg) = args.next()? {
            match arg {
                Long("listen") => options.listen.push(listen(&args.value()?.string()?)?),
                Long("name") => options.name = args.value()?.string()?,
                Long("script") => options.script = script(&args.value()?.string()?)?,
                Long("speed") => speed = args.value()?.parse::<f64>()?,
                Long("first-token") => options.pace.first_token = time(&args.value()?.string()?)?,
                Long("token-gap") => options.pace.token_gap = time(&args.value()?.string()?)?,
                Long("tokens") => options.pace.tokens = Count::Constant(args.value()?.parse()?),
                Long("prefill") => {
                    options.prefill = match args.value()?.string()?.as_str() {
                        "continue" => Prefill::Continue,
                        "restart" => Prefill::Restart,
                        "refuse" => Prefill::Refuse,
                        other => {
                            return Err(format!(
                                "--prefill is continue, restart or refuse, not {other}"
                            )
                            .into());
                        }
                    };
                }
                Long("api-key") => options.api_key = Some(args.value()?.string()?),
                Long("seed") => options.seed = args.value()?.parse()?,
                Long("faults") => {
                    let mut out = std::io::stdout();
                    for fault in Fault::ALL {
                        writeln!(out, "{:<24} {}", fault.name(), fault.summary())?;
                    }
                    return Ok(None);
                }
                Long("help") => {
                    std::io::stdout().write_all(HELP.as_bytes())?;
                    return Ok(None);
                }
                other => return Err(other.unexpected().into()),
            }
        }
        if options.listen.is_empty() {
            return Err("no --listen; for example `--listen 127.0.0.1:8401` (see --help)".into());
        }
        if !(speed > 0.0 && speed.is_finite()) {
            return Err("--speed must be above 0".into());
        }
        if speed != 1.0 {
            options.script = options
                .script
                .scaled(speed, std::time::Duration::from_millis(200));
        }
        Ok(Some(options))
    }
}

fn listen(text: &str) -> Result<(SocketAddr, Option<String>), String> {
    let (addr, name) = match text.split_once('=') {
        Some((addr, name)) => (addr, Some(name.to_owned())),
        None => (text, None),
    };
    let addr = addr
        .parse()
        .map_err(|_| format!("--listen {text}: write an address such as 127.0.0.1:8401"))?;
    Ok((addr, name))
}

fn time(text: &str) -> Result<Spread, String> {
    let time = humantime::parse_duration(text)
        .map_err(|error| format!("`{text}` is not a time such as 50ms: {error}"))?;
    Ok(Spread::Constant(time))
}

fn script(path: &str) -> Result<Script, String> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("--script {path}: {error}"))?;
    let script = if path.ends_with(".json") {
        Script::from_json(&text)
    } else {
        Script::from_toml(&text)
    };
    script.map_err(|error| format!("--script {path}: {error}"))
}
