//! A config made from the engines that run on this machine.

use crate::exit::Failure;
use std::net::SocketAddr;
use tokio::task::LocalSet;
use weighbridge_config::Loaded;
use weighbridge_gateway::local::{Found, USUAL_PORTS, config_for, find};

/// Where the gateway listens then.
const LISTEN: &str = "127.0.0.1:8800";
/// Where its admin listener is.
const ADMIN: &str = "127.0.0.1:8801";

/// Looks for engines on `ports`, or on the usual ones, and says what it found.
pub(crate) fn config(ports: Option<&[u16]>) -> Result<Loaded, Failure> {
    let usual = |port: &u16| {
        USUAL_PORTS
            .iter()
            .find(|(usual, _)| usual == port)
            .map_or((*port, "generic"), |known| *known)
    };
    let ports: Vec<_> = ports.map_or_else(|| USUAL_PORTS.to_vec(), |ports| ports.iter().map(usual).collect());
    let [listen, admin] = addresses()?;
    let found = super::runtime()?.block_on(LocalSet::new().run_until(find(&ports, &[listen, admin])));
    if found.is_empty() {
        return Err(Failure::BadInput(nothing(&ports)));
    }
    let text = config_for(&found, listen, admin);
    say(&found, &text);
    weighbridge_config::load_str("found engines", &text, &|_| None)
        .map_err(|problems| Failure::Failed(format!("the engines found make no config\n{problems}")))
}

/// The usual addresses, or what the environment says: for tests and for a second gateway on one machine.
fn addresses() -> Result<[SocketAddr; 2], Failure> {
    let address = |variable: &str, usual: &str| {
        let text = std::env::var(variable).unwrap_or_else(|_| usual.to_owned());
        text.parse()
            .map_err(|_| Failure::BadInput(format!("{variable}={text} is no address such as {usual}")))
    };
    Ok([
        address("WEIGHBRIDGE_LISTEN", LISTEN)?,
        address("WEIGHBRIDGE_ADMIN_LISTEN", ADMIN)?,
    ])
}

fn nothing(ports: &[(u16, &str)]) -> String {
    let ports: Vec<_> = ports.iter().map(|(port, _)| port.to_string()).collect();
    format!(
        "no config, and no engine answers on the ports {} of this machine\n\
         What to do next:\n  \
         - start an engine (vLLM, SGLang, llama.cpp, Ollama, LM Studio) and try again, or\n  \
         - write weighbridge.yaml:\n      pools:\n        - name: my-model\n          endpoints: [http://gpu1:8000, http://gpu2:8000]\n  \
         - or look around without any engine: weighbridge demo",
        ports.join(", ")
    )
}

#[expect(
    clippy::print_stderr,
    reason = "told to the person who starts the gateway without a config"
)]
fn say(found: &[Found], config: &str) {
    eprintln!("No config: using the engines found on this machine.");
    for engine in found {
        eprintln!(
            "  {} ({}): {}",
            engine.address,
            engine.kind,
            engine.models.join(", ")
        );
    }
    eprintln!("The same as a file, to start from:\n\n{config}");
}
