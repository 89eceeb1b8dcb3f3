// SPDX-License-Identifier: Apache-2.0

//! Objects of the network namespace that are in no table. Rules of x_tables name them; programs
//! make them by messages of their own subsystems.

use std::sync::Arc;

use penstock_conntrack::{CLASSES, Class, HELPER_DATA_MAX, Helpers};
use penstock_program::image::CtObject;
use penstock_program::osf::{self, Fingerprints};
use penstock_program::state::{AccountQuota, AccountState, Counted};
use penstock_program::{Errno, Family, State};
use serde::{Deserialize, Serialize};

use crate::ct_helper;
pub use penstock_program::expr::XtNamed as Named;

/// Longest name, in bytes (`NFACCT_NAME_MAX`, `CTNL_TIMEOUT_NAME_MAX`, without the end).
pub const NAME_MAX: usize = 31;

/// Most helpers that programs are; the kernel has no limit.
const HELPERS_MAX: usize = 1024;

/// All such objects, each kind in order of creation.
#[derive(Clone, Debug, Default)]
pub struct Globals {
    /// Accounts.
    pub accounts: Vec<Account>,
    /// Timeout policies.
    pub timeouts: Vec<Timeout>,
    /// Fingerprints of operating systems, in the order in which they are tried.
    pub fingerprints: Vec<NewFingerprint>,
    /// What packets are compared with.
    pub systems: Arc<Fingerprints>,
    /// Helpers that programs are.
    pub helpers: Vec<ProgramHelper>,
}

/// A helper of connections that is a program (`net/netfilter/nfnetlink_cthelper.c`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramHelper {
    /// Its number: none has it twice, and it keeps it as long as it is there.
    pub number: u16,
    /// What it is made of.
    pub config: NewHelper,
}

/// What tells one helper from others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelperKey {
    /// Its name.
    pub name: Arc<str>,
    /// `NFPROTO_*` of its connections, 0 for all.
    pub l3proto: u16,
    /// IP protocol number of its connections.
    pub l4proto: u8,
}

/// A helper to be made, or as it is to be from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewHelper {
    /// What tells it from others.
    pub key: HelperKey,
    /// Number of the queue that the program listens to; only the lower 16 bits count.
    pub queue: u32,
    /// Whether packets go there; otherwise they pass.
    pub enabled: bool,
    /// Bytes that the program keeps with a connection, [`HELPER_DATA_MAX`] at most.
    pub data_len: u8,
    /// Its classes of expectations, from 1 to [`CLASSES`].
    pub classes: Vec<NewHelperClass>,
}

/// A class of expectations (`struct nf_conntrack_expect_policy`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewHelperClass {
    /// Its name.
    pub name: Arc<str>,
    /// Most that one connection expects; 0 for any number.
    pub max: u8,
    /// How long it expects them, in seconds.
    pub timeout: u32,
}

/// Longest name of a helper or a class, in bytes (`NF_CT_HELPER_NAME_LEN` without the end).
pub const HELPER_NAME_MAX: usize = 15;

impl NewHelper {
    /// Whether names and numbers are what helpers have.
    pub(crate) fn is_sound(&self) -> bool {
        let named = |name: &str| name.len() <= HELPER_NAME_MAX;
        named(&self.key.name)
            && usize::from(self.data_len) <= HELPER_DATA_MAX
            && (1..=CLASSES).contains(&self.classes.len())
            && self.classes.iter().all(|class| named(&class.name))
    }
}

/// A fingerprint of an operating system as programs send it (`struct nf_osf_user_finger`,
/// `net/netfilter/nfnetlink_osf.c`), [`osf::MESSAGE_LEN`] bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewFingerprint(pub Arc<[u8]>);

impl NewFingerprint {
    /// It as an array; `None` if it is none.
    fn bytes(&self) -> Option<&[u8; osf::MESSAGE_LEN]> {
        (*self.0).try_into().ok()
    }
}

/// A counter that rules share by its name (`net/netfilter/nfnetlink_acct.c`).
#[derive(Clone, Debug)]
pub struct Account {
    /// Its name.
    pub name: Arc<str>,
    /// Its values, shared by generations, rules and workers.
    pub state: Arc<State>,
}

/// Timeouts that new connections get by name (`net/netfilter/nfnetlink_cttimeout.c`).
#[derive(Clone, Debug)]
pub struct Timeout {
    /// What it is made of.
    pub config: NewTimeout,
    /// What rules give to connections.
    pub object: Arc<CtObject>,
}

/// A timeout policy to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTimeout {
    /// Its name.
    pub name: Arc<str>,
    /// `NFPROTO_*` of the tables whose rules may name it.
    pub l3proto: u16,
    /// IP protocol number; 255 for those without a tracker of their own.
    pub l4proto: u8,
    /// States, by the kernel's number, and seconds; others have the usual timeouts.
    pub values: Vec<(u8, u32)>,
}

/// A change of such objects.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum GlobalChange {
    /// A new account.
    AddAccount(NewAccount),
    /// The account of a name goes.
    DeleteAccount(Arc<str>),
    /// A new timeout policy, or other timeouts for the one of the name.
    SetTimeout(NewTimeout),
    /// The timeout policy of a name goes.
    DeleteTimeout(Arc<str>),
    /// A new fingerprint, behind the others.
    AddFingerprint(NewFingerprint),
    /// A fingerprint goes.
    DeleteFingerprint(NewFingerprint),
    /// A new helper that a program is, or another queue, state or other classes for it.
    SetHelper(NewHelper),
    /// A helper that a program is goes.
    DeleteHelper(HelperKey),
}

/// An account to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewAccount {
    /// Its name.
    pub name: Arc<str>,
    /// What it begins with.
    pub counted: Counted,
    /// What it may count up to.
    pub quota: Option<AccountQuota>,
}

impl Account {
    /// What would make it as it is now.
    pub fn snapshot(&self) -> NewAccount {
        let state = self.state();
        NewAccount {
            name: self.name.clone(),
            counted: state.map(AccountState::read).unwrap_or_default(),
            quota: state.and_then(AccountState::quota),
        }
    }

    /// Sets it to zero.
    pub(crate) fn reset(&self) {
        if let Some(state) = self.state() {
            state.reset();
        }
    }

    fn state(&self) -> Option<&AccountState> {
        match &*self.state {
            State::Account(state) => Some(state),
            _ => None,
        }
    }
}

impl From<NewAccount> for Account {
    fn from(new: NewAccount) -> Self {
        let state = AccountState::new(new.counted, new.quota);
        Account { name: new.name, state: Arc::new(State::Account(state)) }
    }
}

impl From<NewTimeout> for Timeout {
    fn from(config: NewTimeout) -> Self {
        let object = CtObject::Timeout {
            l4proto: config.l4proto,
            l3proto: u8::try_from(config.l3proto).unwrap_or(0),
            values: config.values.as_slice().into(),
        };
        Timeout { config, object: Arc::new(object) }
    }
}

impl Globals {
    /// The timeout policy of a name.
    pub fn timeout(&self, name: &str) -> Option<&Timeout> {
        self.timeouts.iter().find(|timeout| *timeout.config.name == *name)
    }

    /// A helper that a program is.
    pub fn helper(&self, key: &HelperKey) -> Option<&ProgramHelper> {
        self.helpers.iter().find(|helper| helper.config.key == *key)
    }

    /// Whether a helper for a transport protocol is there for IPv4, and for IPv6; `None` if there
    /// is none of the name (`__nf_conntrack_helper_find()`).
    pub fn helper_families(&self, name: &str, l4proto: u8) -> Option<[bool; 2]> {
        let built_in = ct_helper::find(name, l4proto).map(|helper| [helper.ipv4, helper.ipv6]);
        let programs = self.helpers.iter().map(|helper| &helper.config.key);
        let programs = programs.filter(|key| *key.name == *name && key.l4proto == l4proto);
        let families = programs.map(|key| {
            [Family::Ip, Family::Ip6]
                .map(|family| matches!(key.l3proto, l3 if l3 == 0 || l3 == family as u16))
        });
        built_in.into_iter().chain(families).reduce(|a, b| [a[0] | b[0], a[1] | b[1]])
    }

    /// Helpers for connections: the built-in ones and those that programs are.
    pub fn connection_helpers(&self) -> Helpers {
        Helpers::with_programs(self.helpers.iter().map(|ProgramHelper { number, config }| {
            let classes = config.classes.iter();
            penstock_conntrack::ProgramHelper {
                number: *number,
                name: &config.key.name,
                // Connections have no other families.
                l3: u8::try_from(config.key.l3proto).unwrap_or(u8::MAX),
                protocol: config.key.l4proto,
                queue: config.queue as u16,
                enabled: config.enabled,
                data_len: config.data_len,
                classes: classes
                    .map(|class| Class { max: class.max.into(), timeout: class.timeout })
                    .collect(),
            }
        }))
    }

    /// Adds a helper, or changes the one of its key; `false` if there is no room for it.
    pub(crate) fn set_helper(&mut self, config: NewHelper) -> bool {
        if let Some(there) = self.helpers.iter_mut().find(|h| h.config.key == config.key) {
            there.config = config;
            return true;
        }
        if self.helpers.len() >= HELPERS_MAX {
            return false;
        }
        let is_free = |number: &u16| self.helpers.iter().all(|helper| helper.number != *number);
        let Some(number) = (Helpers::FIRST..=u16::MAX).find(is_free) else { return false };
        self.helpers.push(ProgramHelper { number, config });
        true
    }

    /// Whether a rule of a family, for packets of a transport protocol, may name something
    /// (`nfacct_mt_checkentry()`, `xt_ct_set_timeout()`, `xt_ct_set_helper()`).
    ///
    /// # Errors
    /// `ENOENT`: it is not there. `EINVAL`: it is for others, or the rule for no protocol.
    pub fn check(&self, named: Named<'_>, family: Family, l4: Option<u8>) -> Result<(), Errno> {
        match named {
            Named::Account(name) => self.account(name).map(|_| ()).ok_or(Errno::Enoent),
            Named::Timeout(name) => {
                let l4 = l4.ok_or(Errno::Einval)?;
                let NewTimeout { l3proto, l4proto, .. } =
                    self.timeout(name).ok_or(Errno::Enoent)?.config;
                match (l3proto, l4proto) == (family as u16, l4) {
                    true => Ok(()),
                    false => Err(Errno::Einval),
                }
            }
            Named::Helper(name) => {
                let there = self.helper_families(name, l4.unwrap_or(0)).unwrap_or_default();
                match there[usize::from(family == Family::Ip6)] {
                    true => Ok(()),
                    false => Err(Errno::Enoent),
                }
            }
        }
    }

    /// Whether what rules were linked with means the same in a later generation.
    pub(crate) fn serve(&self, later: &Globals) -> bool {
        let same = |old: &Timeout| {
            let new = later.timeout(&old.config.name);
            new.is_none_or(|new| Arc::ptr_eq(&new.object, &old.object))
        };
        Arc::ptr_eq(&self.systems, &later.systems) && self.timeouts.iter().all(same)
    }

    /// Adds a fingerprint behind the others; `false` if it is none.
    pub(crate) fn add_fingerprint(&mut self, new: NewFingerprint) -> bool {
        let Some(bytes) = new.bytes() else { return false };
        Arc::make_mut(&mut self.systems).push(bytes);
        self.fingerprints.push(new);
        true
    }

    /// Takes a fingerprint away, if it is there.
    pub(crate) fn delete_fingerprint(&mut self, old: &NewFingerprint) -> bool {
        let Some(at) = self.fingerprints.iter().position(|there| there == old) else {
            return false;
        };
        self.fingerprints.remove(at);
        let mut systems = Fingerprints::default();
        self.fingerprints.iter().filter_map(NewFingerprint::bytes).for_each(|f| systems.push(f));
        self.systems = Arc::new(systems);
        true
    }

    /// The account of a name.
    pub fn account(&self, name: &str) -> Option<&Account> {
        self.accounts.iter().find(|account| *account.name == *name)
    }
}
