//! `ringpit status`: what a running server says of itself.

use std::time::Duration;

use protocol::Timestamp;
use serde_json::Value;

use super::data::{self, DataArgs};
use crate::console::OutputArgs;
use crate::error::CommandError;
use crate::http::client;
use crate::say;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Say how the server of a data directory is doing
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  ringpit status --data data\n\nThe exit status is 0 if it takes orders, else 1."
)]
pub struct StatusArgs {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
///
/// # Errors
/// No server runs, or it takes no orders.
pub fn run(args: &StatusArgs) -> Result<(), CommandError> {
    let data = args.data.existing()?;
    let Some(ready) = data::server_of(&data)? else {
        return Err(CommandError::failed(format!(
            "no server runs on {}, or it is not ready yet; start one with `ringpit serve`",
            data.display()
        )));
    };
    let status = data::ask(&ready, "/status", TIMEOUT)?;
    let readiness = client::request(ready.http, "GET", "/readyz", None, "", TIMEOUT)
        .map_err(|error| CommandError::failed(format!("http://{}: {error}", ready.http)))?;
    if let Value::Object(fields) = &status {
        for (name, value) in fields {
            match value {
                Value::String(text) => say!("{name:24} {text}"),
                Value::Array(skips) if name == "skips" => skips.iter().for_each(tell_skip),
                other => say!("{name:24} {other}"),
            }
        }
    }
    args.output.last_line(&status);
    if readiness.status == 200 {
        return Ok(());
    }
    Err(CommandError::failed(format!("the server takes no orders: {}", readiness.body.trim())))
}

/// One of the frames that operators had skipped.
fn tell_skip(skip: &Value) {
    let text = |name: &str| skip[name].as_str().unwrap_or_default().to_owned();
    let at = crate::text::time(Timestamp(skip["at_ns"].as_u64().unwrap_or_default()));
    say!("{:24} frame {}, as {} ordered at {at}: {}", "skips", skip["sequence"], text("who"), text("why"));
}
