//! The ruleset of a run: text in, text out.

use std::path::Path;

use penstock_ruleset::{Family, Ruleset};

/// Loads a file as `nft -f` does. The error is what nft prints.
pub fn load(file: &Path) -> Result<Ruleset, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("Error: {}: {e}", file.display()))?;
    if text.trim().is_empty() {
        return Ok(Ruleset::default());
    }
    Err("Error: loading rules is not there yet".into())
}

/// The ruleset as `nft list ruleset` prints it, or `nft -j list ruleset`.
pub fn list(_ruleset: &Ruleset, json: bool) -> Result<String, String> {
    if json {
        return Err("Error: JSON is not there yet".into());
    }
    Ok(String::new())
}

/// The word of the language for a family.
pub fn family(family: Family) -> &'static str {
    match family {
        Family::Inet => "inet",
        Family::Ip => "ip",
        Family::Arp => "arp",
        Family::Netdev => "netdev",
        Family::Bridge => "bridge",
        Family::Ip6 => "ip6",
    }
}
