//! `ringpit cluster adopt`: tells a copied or restored data directory that it is the member from now on.

use std::path::PathBuf;

use serde_json::json;

use crate::commands::data;
use crate::config::{Config, Overrides};
use crate::console::OutputArgs;
use crate::error::CommandError;
use crate::{assembly, member, say};

/// Make a copied or moved data directory the member's own. Only if its original is gone for good
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ringpit cluster adopt --config ringpit.toml

The copy may lack what its original acknowledged and voted since, so it has no vote until it has caught up with the others.
Two directories of one member that both run could lose orders.")]
pub(super) struct AdoptArgs {
    /// The member's configuration
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
pub(super) fn run(args: &AdoptArgs) -> Result<(), CommandError> {
    let config = Config::load(Some(&args.config), &Overrides::default())
        .map_err(|error| CommandError::usage(error.to_string()))?;
    let cluster = super::of_member(&config)?;
    let data = config.data.display();
    let storage = data::open(&config.data)?;
    let journal = assembly::engine(&config, 0).journal;
    if !member::adopt(cluster, &config.data, &storage, &journal)? {
        return Err(CommandError::failed(format!("{data}: is no member's, so there is nothing to adopt")));
    }
    let id = cluster.member.id;
    say!(
        "{data} is member {id} from now on; start it, and never again the directory that it was copied from"
    );
    args.output.last_line(&json!({ "member": id, "data": config.data }));
    Ok(())
}
