//! x
use anyhow::Result;
use crate::workspace::Workspace;
use crate::frameworks;
#[derive(Debug, clap::Args)]
pub(crate) struct Options {}
pub(crate) fn chore(w: &Workspace, _o: &Options) -> Result<()> {
    frameworks::make_environments(w)?; println!("{:?}", frameworks::install_peers(w)?); Ok(()) }
