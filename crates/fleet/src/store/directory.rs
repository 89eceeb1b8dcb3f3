// SPDX-License-Identifier: Apache-2.0

//! A directory: a checkout, a copy that rsync makes, a file system that several machines mount.
//!
//! `head` is the head, `blobs/ab/cdef…` a blob, `reports/NODE` a report. Each file takes its name
//! when it is whole. A web server that serves the directory is a store for reading
//! ([`Https`](super::Https)).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use penstock_files::Access;

use super::{Error, Store, Version, blob_name};
use crate::report::is_node_name;
use crate::{Digest, limits};

/// How often it is looked whether there is another head.
const PULSE: Duration = Duration::from_millis(50);

/// A directory.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// The store in a directory, which is there: a store that is not mounted is away, and not empty.
    pub fn new(path: impl Into<PathBuf>) -> Directory {
        Directory { path: path.into() }
    }

    fn blob(&self, digest: Digest) -> PathBuf {
        self.path.join("blobs").join(blob_name(digest))
    }

    /// Writes a file that appears when it is whole. Who may read it is for umask(2) to say.
    fn put(&self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        let put = made.and_then(|()| penstock_files::replace(path, bytes, Access::Umask));
        put.map_err(|e| Error::Refused(format!("{}: {e}", path.display())))
    }

    fn read(&self, path: &Path, limit: u64) -> Result<Option<Vec<u8>>, Error> {
        let told = |e: io::Error| Error::Away(format!("{}: {e}", path.display()));
        let file = match File::open(path) {
            // The directory itself may be away, and then it does not say that there is no file.
            Err(e) if e.kind() == io::ErrorKind::NotFound && self.path.is_dir() => return Ok(None),
            other => other.map_err(told)?,
        };
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(file, limit + 1), &mut bytes).map_err(told)?;
        match bytes.len() as u64 > limit {
            true => Err(Error::Wrong(format!("{} is longer than {limit} bytes", path.display()))),
            false => Ok(Some(bytes)),
        }
    }

    /// Who replaces the head has this.
    fn lock(&self) -> Result<File, Error> {
        let told = |e: io::Error| Error::Refused(format!("{}: {e}", self.path.display()));
        fs::create_dir_all(&self.path).map_err(told)?;
        let lock = File::create(self.path.join("lock")).map_err(told)?;
        lock.lock().map_err(told)?;
        Ok(lock)
    }

    /// What changes with each head: the file is another one.
    fn tag(&self) -> Option<String> {
        let metadata = fs::metadata(self.path.join("head")).ok()?;
        let (number, size) = (metadata.ino(), metadata.size());
        Some(format!("{number}.{}.{}.{size}", metadata.mtime(), metadata.mtime_nsec()))
    }
}

impl Store for Directory {
    fn address(&self) -> String {
        format!("dir:{}", self.path.display())
    }

    fn blobs(&self, digests: &[Digest]) -> Result<Vec<Vec<u8>>, Error> {
        let read = |digest: &Digest| {
            self.read(&self.blob(*digest), limits::BLOB)?.ok_or(Error::Missing(*digest))
        };
        digests.iter().map(read).collect()
    }

    fn put_blobs(&self, blobs: &[&[u8]]) -> Result<(), Error> {
        for blob in blobs {
            let path = self.blob(Digest::of(blob));
            // One that is there may be damaged.
            if fs::read(&path).ok().as_deref() != Some(*blob) {
                self.put(&path, blob)?;
            }
        }
        Ok(())
    }

    fn missing(&self, digests: &[Digest]) -> Result<Vec<Digest>, Error> {
        Ok(digests.iter().copied().filter(|digest| !self.blob(*digest).exists()).collect())
    }

    fn head(&self) -> Result<Option<Version>, Error> {
        // A head that is replaced between the two has the tag of the one before, and is read again.
        let tag = self.tag();
        let bytes = self.read(&self.path.join("head"), limits::HEAD)?;
        Ok(bytes.map(|bytes| Version { bytes, tag: tag.unwrap_or_default() }))
    }

    fn names(&self) -> Result<Vec<Digest>, Error> {
        let told = |e: io::Error| Error::Away(format!("{}: {e}", self.path.display()));
        let mut names = Vec::new();
        for folder in fs::read_dir(self.path.join("blobs")).map_err(told)? {
            let folder = folder.map_err(told)?;
            for file in fs::read_dir(folder.path()).map_err(told)? {
                let name = [folder.file_name(), file.map_err(told)?.file_name()];
                let name = name.map(|part| part.to_string_lossy().into_owned()).concat();
                // What is no blob is not this store's.
                names.extend(name.parse::<Digest>().ok());
            }
        }
        Ok(names)
    }

    fn remove(&self, tag: &str, digests: &[Digest]) -> Result<bool, Error> {
        let _lock = self.lock()?;
        if self.tag().as_deref() != Some(tag) {
            return Ok(false);
        }
        for digest in digests {
            let path = self.blob(*digest);
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::Refused(format!("{}: {e}", path.display())));
                }
                _ => {}
            }
        }
        // The same head, in another file.
        let head = self.path.join("head");
        match self.read(&head, limits::HEAD)? {
            Some(bytes) => self.put(&head, &bytes).map(|()| true),
            None => Ok(false),
        }
    }

    fn swap_head(&self, tag: Option<&str>, bytes: &[u8]) -> Result<bool, Error> {
        let _lock = self.lock()?;
        if self.tag().as_deref() != tag {
            return Ok(false);
        }
        self.put(&self.path.join("head"), bytes).map(|()| true)
    }

    fn wait(&self, tag: Option<&str>, time: Duration) -> Result<Option<Version>, Error> {
        let end = Instant::now() + time;
        loop {
            let head = self.head()?;
            if head.as_ref().map(|head| head.tag.as_str()) != tag {
                return Ok(head);
            }
            if Instant::now() >= end {
                return Ok(None);
            }
            std::thread::sleep(PULSE.min(time));
        }
    }

    fn report(&self, node: &str, report: &[u8], _time: Duration) -> Result<(), Error> {
        if !is_node_name(node) {
            return Err(Error::Refused(format!("{node:?} is no name of a node")));
        }
        self.put(&self.path.join("reports").join(node), report)
    }

    fn reports(&self) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let directory = self.path.join("reports");
        let mut reports = Vec::new();
        let Ok(files) = fs::read_dir(&directory) else { return Ok(reports) };
        for file in files.flatten().take(limits::REPORTS) {
            let name = file.file_name().to_string_lossy().into_owned();
            if is_node_name(&name)
                && let Some(bytes) = self.read(&file.path(), limits::REPORT)?
                && let Ok(report) = crate::Report::read(&bytes)
                && is_good(&report, &file)
            {
                reports.push((name, bytes));
            }
        }
        reports.sort();
        Ok(reports)
    }
}

/// Whether a report has not ended. The clock of the node may be wrong: how old the file is counts.
fn is_good(report: &crate::Report, file: &fs::DirEntry) -> bool {
    let put = file.metadata().and_then(|metadata| metadata.modified());
    let (Ok(put), 1..) = (put, report.lease) else {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        return report.until >= now.as_secs();
    };
    // One of the future was put a moment ago by another clock.
    put.elapsed().map_or(true, |age| age.as_secs() <= report.lease)
}
