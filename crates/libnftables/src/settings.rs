// SPDX-License-Identifier: Apache-2.0

//! What callers set on a context, as options of a session and as words of `penstock nft`.

use std::process;

use penstock_lang::datatype::Format;
use penstock_lang::release::Release;
use penstock_lang::session::{Debug, Options};

/// `NFT_CTX_INPUT_NO_DNS`
const NO_HOSTS: u32 = 1;
/// `NFT_CTX_INPUT_JSON`
const JSON_INPUT: u32 = 2;
/// `NFT_CTX_OUTPUT_JSON`
const JSON: u32 = 16;
/// `NFT_CTX_OUTPUT_ECHO`
const ECHO: u32 = 32;
/// `NFT_DEBUG_NETLINK`
const NETLINK: u32 = 8;
/// All levels at once, as `nft --debug all` has them.
const ALL_LEVELS: u32 = 0x7f;
/// Names of the levels of debugging, from the lowest bit.
const LEVELS: [&str; 7] = ["scanner", "parser", "eval", "netlink", "mnl", "proto-ctx", "segtree"];

/// A flag of output that changes how things are listed.
struct Form {
    flag: u32,
    /// The option of `penstock nft`.
    option: &'static str,
    part: fn(&mut Format) -> &mut bool,
}

const FORMS: [Form; 10] = [
    Form { flag: 1, option: "-N", part: |format| &mut format.host_names },
    Form { flag: 2, option: "-S", part: |format| &mut format.service_names },
    Form { flag: 4, option: "-s", part: |format| &mut format.stateless },
    Form { flag: 8, option: "-a", part: |format| &mut format.handles },
    Form { flag: 64, option: "-u", part: |format| &mut format.user_names },
    Form { flag: 128, option: "-p", part: |format| &mut format.numeric_protocol },
    Form { flag: 256, option: "-y", part: |format| &mut format.numeric_priority },
    Form { flag: 512, option: "--numeric-symbols", part: |format| &mut format.numeric_symbols },
    Form { flag: 1024, option: "-T", part: |format| &mut format.numeric_time },
    Form { flag: 2048, option: "-t", part: |format| &mut format.terse },
];

/// The settings of a context. Flags have the values of the header.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) dry_run: bool,
    pub(crate) optimize: u32,
    pub(crate) input: u32,
    pub(crate) output: u32,
    pub(crate) debug: u32,
    pub(crate) include_paths: Vec<String>,
    /// Names and values.
    pub(crate) variables: Vec<(String, String)>,
    /// The form of listings.
    pub(crate) release: Release,
}

impl Settings {
    pub(crate) fn new(release: Release) -> Self {
        Settings {
            dry_run: false,
            optimize: 0,
            input: 0,
            output: 0,
            debug: 0,
            include_paths: vec!["/etc".into()],
            variables: Vec::new(),
            release,
        }
    }

    /// Whether names of hosts stand for their addresses.
    pub(crate) fn resolves(&self) -> bool {
        self.input & NO_HOSTS == 0
    }

    /// Whether `--debug netlink` is asked for.
    ///
    /// # Errors
    /// A sentence: a level is asked for that there is not.
    fn shows_netlink(&self) -> Result<bool, String> {
        let other = self.debug & !NETLINK;
        if self.debug == ALL_LEVELS || other == 0 {
            return Ok(self.debug != 0);
        }
        let level = LEVELS.get(other.trailing_zeros() as usize);
        Err(match level {
            Some(level) => {
                format!("debug level `{level}' traces a part of nft that is not here; `netlink' is")
            }
            None => format!("there is no debug level {:#x}", other & !ALL_LEVELS),
        })
    }

    /// Options for a session in this process. `file`: the text is one, for which variables and
    /// optimization are.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) fn options(&self, file: bool) -> Result<Options, String> {
        let mut format = Format { release: self.release, ..Format::default() };
        for form in FORMS.iter().filter(|form| self.output & form.flag != 0) {
            *(form.part)(&mut format) = true;
        }
        Ok(Options {
            check: self.dry_run,
            echo: self.output & ECHO != 0,
            optimize: file && self.optimize != 0,
            json: self.output & JSON != 0,
            json_input: self.input & JSON_INPUT != 0,
            format,
            debug: Debug { netlink: self.shows_netlink()? },
            defines: if file { self.variables.clone() } else { Vec::new() },
            include_paths: self.include_paths.clone(),
            process: Some((process::id(), program())),
            ..Options::default()
        })
    }

    /// The same as options of `penstock nft`, for a dataplane.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) fn words(&self, file: bool) -> Result<Vec<String>, String> {
        let Options { check, echo, optimize, json, json_input, debug, defines, .. } =
            self.options(file)?;
        let forms = FORMS.iter().map(|form| (self.output & form.flag != 0, form.option));
        let flags = [
            (check, "-c"),
            (echo, "-e"),
            (optimize, "-o"),
            (json, "-j"),
            (json_input, "--json-input"),
            (debug.netlink, "--debug=netlink"),
            (true, "--no-includepath"),
        ];
        let given = forms.chain(flags).filter(|(given, _)| *given);
        let mut words: Vec<String> = given.map(|(_, option)| option.to_owned()).collect();
        words.push(format!("--compat={}", self.release.name()));
        words.extend(self.include_paths.iter().map(|path| format!("--includepath={path}")));
        words.extend(defines.iter().map(|(name, value)| format!("--define={name}={value}")));
        Ok(words)
    }
}

/// The name of this program, as the kernel knows it.
fn program() -> String {
    let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    name.trim_end_matches('\n').to_owned()
}
