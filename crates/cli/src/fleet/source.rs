// SPDX-License-Identifier: Apache-2.0

//! Options that say which store is asked, and how.

use std::path::PathBuf;

use penstock_fleet::store::{Access, Error};
use penstock_fleet::{Store, open};

use crate::options::{Opt, Values, long};
use crate::setup::sentence;

/// The title that [`OPTIONS`] stand under.
pub const TITLE: &str = "The store";

/// What [`Source::take`] takes.
pub const OPTIONS: &[Opt] = &[
    long("source", "the store: DIR, https://HOST/PATH, or etcd[s]://HOST:PORT[,HOST:PORT]/PREFIX")
        .takes("URL", Values::Any),
    long("ca", "authorities that are trusted, in PEM; default: those of the system")
        .takes("FILE", Values::Files),
    long("certificate", "the certificate to show, in PEM").takes("FILE", Values::Files),
    long("certificate-key", "its key, in PEM").takes("FILE", Values::Files),
    long("password", "a file with USER:PASSWORD for etcd").takes("FILE", Values::Files),
];

/// A store, as options name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    url: Option<String>,
    ca: Option<PathBuf>,
    certificate: Option<PathBuf>,
    certificate_key: Option<PathBuf>,
    password: Option<PathBuf>,
}

impl Source {
    /// Takes an option. Returns whether it is one of these.
    ///
    /// # Errors
    /// Its value is missing or no text.
    pub fn take(&mut self, name: &str, parser: &mut lexopt::Parser) -> Result<bool, String> {
        let file = match name {
            "source" => {
                let url = parser.value().map_err(sentence)?.into_string();
                self.url = Some(url.map_err(|_| "--source is no text".to_owned())?);
                return Ok(true);
            }
            "ca" => &mut self.ca,
            "certificate" => &mut self.certificate,
            "certificate-key" => &mut self.certificate_key,
            "password" => &mut self.password,
            _ => return Ok(false),
        };
        *file = Some(parser.value().map_err(sentence)?.into());
        Ok(true)
    }

    /// Whether all is given that has to be.
    ///
    /// # Errors
    /// What is missing.
    pub fn given(&self) -> Result<(), String> {
        if self.url.is_none() {
            return Err("--source URL is missing: where is the store?".into());
        }
        if self.certificate.is_some() != self.certificate_key.is_some() {
            return Err("--certificate and --certificate-key go together".into());
        }
        Ok(())
    }

    /// The store. Nothing is asked yet.
    ///
    /// # Errors
    /// The address is wrong, or a file cannot be used.
    pub fn open(&self) -> Result<Box<dyn Store>, Error> {
        let mut access = Access { password: self.password.clone(), ..Access::default() };
        access.http.ca.clone_from(&self.ca);
        access.http.client = self.certificate.clone().zip(self.certificate_key.clone());
        open(self.url.as_deref().unwrap_or_default(), &access)
    }
}
