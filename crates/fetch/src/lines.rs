// SPDX-License-Identifier: Apache-2.0

//! An answer that comes line by line.

use std::io::{BufRead, BufReader, Read};

use ureq::{Body, BodyReader};

use crate::Error;

/// The lines of an answer, without their ends, as they come. Dropping it ends the connection.
pub struct Lines {
    reader: BufReader<BodyReader<'static>>,
    limit: u64,
}

impl Lines {
    pub(crate) fn new(body: Body, limit: u64) -> Lines {
        // The answer may go on for ever; each line has a limit.
        let reader = BufReader::new(body.into_with_config().limit(u64::MAX).reader());
        Lines { reader, limit }
    }

    /// Waits for the next line; `None` at the end of the answer.
    ///
    /// # Errors
    /// [`Error::Late`] if nothing comes for [`Options::quiet`](crate::Options::quiet), after which
    /// the answer cannot be read on; [`Error::Large`] for a line above the limit.
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let mut line = Vec::new();
        let most = self.limit.saturating_add(1);
        let read = (&mut self.reader).take(most).read_until(b'\n', &mut line);
        read.map_err(|e| Error::of_read(e, self.limit))?;
        match line.last() {
            None => return Ok(None),
            Some(b'\n') => drop(line.pop()),
            Some(_) if line.len() as u64 > self.limit => {
                return Err(Error::Large { limit: self.limit });
            }
            Some(_) => {}
        }
        Ok(Some(line))
    }
}
