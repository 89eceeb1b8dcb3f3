// SPDX-License-Identifier: Apache-2.0

//! The routes of all sessions. They go with their session, unless its peer said that it keeps
//! forwarding while it restarts (RFC 4724): then they stay until it has announced its routes anew,
//! or has not come back in time.

use std::collections::BTreeMap;

use super::{Event, Restart, Route, RouteFamily, Said};

/// Bounds that a peer cannot change.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Routes of all sessions together; more are refused.
    pub routes: usize,
    /// The longest time in seconds that routes stay for a peer that restarts.
    pub stale: u64,
}

/// What became of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Routes may have changed.
    Changed,
    /// Nothing changed.
    Nothing,
    /// A route was refused, and why.
    Refused(String),
}

/// The routes of all sessions.
#[derive(Debug)]
pub struct Rib {
    bounds: Bounds,
    sessions: BTreeMap<String, Session>,
    count: usize,
}

#[derive(Debug, Default)]
struct Session {
    is_up: bool,
    /// A notification ends a session without graceful restart.
    was_notified: bool,
    /// What the peer said of restarts when the session that is up was opened, and what it said
    /// when the next one was.
    restart: Option<Restart>,
    opened: Option<Restart>,
    routes: BTreeMap<(RouteFamily, String), Held>,
    /// When stale routes go.
    stale_until: Option<u64>,
}

#[derive(Debug)]
struct Held {
    route: Route,
    is_stale: bool,
}

impl Rib {
    /// No sessions.
    pub fn new(bounds: Bounds) -> Rib {
        Rib { bounds, sessions: BTreeMap::new(), count: 0 }
    }

    /// How many routes there are, those that were refused included.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many sessions are up.
    pub fn sessions_up(&self) -> usize {
        self.sessions.values().filter(|s| s.is_up).count()
    }

    /// All routes with the names of their peers, in the order of peers and families.
    pub fn routes(&self) -> impl Iterator<Item = (&str, RouteFamily, &Route)> {
        self.sessions.iter().flat_map(|(peer, session)| {
            let routes = session.routes.iter();
            routes.map(move |((family, _), held)| (&**peer, *family, &held.route))
        })
    }

    /// The next time at which something happens by itself, in seconds.
    pub fn next_time(&self) -> Option<u64> {
        self.sessions.values().filter_map(|s| s.stale_until).min()
    }

    /// Removes stale routes whose time is over. Whether there were any.
    pub fn advance(&mut self, now: u64) -> bool {
        let before = self.count;
        for session in self.sessions.values_mut() {
            if session.stale_until.is_some_and(|end| end <= now) {
                session.stale_until = None;
                session.routes.retain(|_, held| !held.is_stale);
            }
        }
        self.forget();
        self.count != before
    }

    /// The speaker is gone, and with it all sessions.
    pub fn speaker_gone(&mut self, now: u64) {
        let most = self.bounds.stale;
        for session in self.sessions.values_mut() {
            session.down(now, most);
        }
        self.forget();
    }

    /// Forgets all sessions and routes.
    pub fn clear(&mut self) {
        self.sessions.clear();
        self.count = 0;
    }

    /// Takes an event.
    pub fn take(&mut self, said: Said, now: u64) -> Taken {
        let Said { peer, event } = said;
        let before = self.count;
        let most = self.bounds.stale;
        let is_full = self.count >= self.bounds.routes;
        let session = self.sessions.entry(peer).or_default();
        match event {
            Event::Open(restart) => {
                session.opened = restart;
                return Taken::Nothing;
            }
            Event::Notification => {
                session.was_notified = true;
                return Taken::Nothing;
            }
            Event::Up => {
                // One that comes up again without an end that was said has ended, too.
                session.down(now, most);
                session.up(now, most);
            }
            Event::Down => session.down(now, most),
            Event::EndOfRib(family) => {
                session.routes.retain(|(of, _), held| *of != family || !held.is_stale);
            }
            Event::Announce(family, name, route) => {
                let key = (family, name);
                if !session.is_up {
                    // Not every speaker tells of sessions.
                    session.up(now, most);
                }
                if is_full && !session.routes.contains_key(&key) {
                    return Taken::Refused(format!("more than {} routes", self.bounds.routes));
                }
                let refused = match &route {
                    Route::Refused(why) => Some(why.clone()),
                    _ => None,
                };
                let held = session.routes.insert(key, Held { route, is_stale: false });
                self.count += usize::from(held.is_none());
                return match refused {
                    Some(why) => Taken::Refused(why),
                    None => Taken::Changed,
                };
            }
            Event::Withdraw(family, name) => {
                session.routes.remove(&(family, name));
            }
        }
        self.forget();
        if self.count == before { Taken::Nothing } else { Taken::Changed }
    }

    /// Counts routes again, and forgets sessions without any that are down.
    fn forget(&mut self) {
        self.sessions.retain(|_, s| s.is_up || s.opened.is_some() || !s.routes.is_empty());
        self.count = self.sessions.values().map(|s| s.routes.len()).sum();
    }
}

impl Session {
    fn down(&mut self, now: u64, most: u64) {
        // An attempt to connect again that fails changes nothing.
        if !std::mem::replace(&mut self.is_up, false) {
            return;
        }
        let was_notified = std::mem::take(&mut self.was_notified);
        let restart = self.restart.take().filter(|r| r.time > 0 && !was_notified);
        let Some(restart) = restart else {
            self.routes.clear();
            self.stale_until = None;
            return;
        };
        let stays = |family| restart.families.iter().any(|(of, _)| *of == family);
        // What was stale already does not stay for another restart.
        self.routes.retain(|(family, _), held| stays(*family) && !held.is_stale);
        self.routes.values_mut().for_each(|held| held.is_stale = true);
        self.stale_until = Some(now.saturating_add(restart.time.min(most)));
    }

    fn up(&mut self, now: u64, most: u64) {
        self.is_up = true;
        self.was_notified = false;
        self.restart = self.opened.take();
        // Routes of families that the peer did not forward by are no good (section 4.2).
        let families = self.restart.as_ref().map_or(&[][..], |r| &r.families);
        self.routes
            .retain(|(family, _), held| !held.is_stale || families.contains(&(*family, true)));
        let has_stale = self.routes.values().any(|held| held.is_stale);
        self.stale_until = has_stale.then_some(now.saturating_add(most));
    }
}
