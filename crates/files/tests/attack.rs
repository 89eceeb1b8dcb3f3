// SPDX-License-Identifier: Apache-2.0

//! What another user with write access to the directory can do, and cannot.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use penstock_files::{Access, can_replace, create, create_new, read, replace, set_aside};

/// A directory that is gone with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path =
            std::env::temp_dir().join(format!("penstock-files-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Scratch(path)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn is_root() -> bool {
    // A file of the process is its user's.
    fs::metadata("/proc/self").unwrap().uid() == 0
}

#[test]
fn a_file_is_replaced_whole_without_leftover_files() {
    let at = Scratch::new("whole");
    let file = at.0.join("state");
    can_replace(&file).unwrap();
    assert_eq!(at.names(), Vec::<String>::new());
    fs::write(&file, "old").unwrap();
    fs::hard_link(&file, at.0.join("other")).unwrap();
    replace(&file, b"new", Access::Owner).unwrap();
    assert_eq!(read(&file).unwrap(), b"new");
    assert_eq!(fs::read(at.0.join("other")).unwrap(), b"old");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(
        create_new(&file, b"", Access::Owner).unwrap_err().kind(),
        std::io::ErrorKind::AlreadyExists
    );
    create_new(&at.0.join("made"), b"made", Access::Owner).unwrap();
    assert_eq!(set_aside(&file, ".broken").unwrap(), at.0.join("state.broken"));
    assert_eq!(at.names(), ["made", "other", "state.broken"]);
}

#[test]
fn symbolic_links_are_followed_only_in_directories_that_others_cannot_write() {
    if !is_root() {
        return;
    }
    let at = Scratch::new("links");
    let (attacker, safe) = (at.0.join("attacker"), at.0.join("safe"));
    fs::create_dir(&attacker).unwrap();
    fs::create_dir(&safe).unwrap();
    chown(&attacker, Some(65534), Some(65534)).unwrap();
    let precious = safe.join("precious");
    fs::write(&precious, "precious").unwrap();
    symlink(&precious, attacker.join("file")).unwrap();
    symlink(&safe, attacker.join("directory")).unwrap();
    symlink(&precious, at.0.join("file")).unwrap();
    symlink(&safe, at.0.join("directory")).unwrap();
    symlink("loop", at.0.join("loop")).unwrap();
    let writes: [fn(&Path) -> std::io::Result<()>; 4] = [
        |path| can_replace(path),
        |path| replace(path, b"x", Access::Owner),
        |path| create(path, Access::Owner).map(drop),
        |path| create_new(path, b"x", Access::Owner),
    ];
    for path in ["attacker/file", "attacker/directory/precious", "attacker/directory/new", "loop"] {
        for write in writes {
            write(&at.0.join(path)).unwrap_err();
        }
        set_aside(&at.0.join(path), ".broken").unwrap_err();
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious", "{path}");
        assert_eq!(fs::read_dir(&safe).unwrap().count(), 1, "{path}");
    }
    // Links of root's are as good as what they lead to, and stay.
    replace(&at.0.join("file"), b"one", Access::Owner).unwrap();
    assert_eq!(fs::read_to_string(&precious).unwrap(), "one");
    replace(&at.0.join("directory/precious"), b"two", Access::Owner).unwrap();
    assert_eq!(fs::read_to_string(&precious).unwrap(), "two");
    replace(&at.0.join("attacker/../directory/../safe/precious"), b"three", Access::Owner).unwrap();
    assert_eq!(fs::read_to_string(&precious).unwrap(), "three");
    assert!(fs::symlink_metadata(at.0.join("file")).unwrap().is_symlink());
}

#[test]
fn only_regular_files_are_read_and_replaced() {
    let at = Scratch::new("kinds");
    for path in [Path::new("/dev/zero"), &at.0] {
        assert!(read(path).is_err(), "{path:?}");
        assert!(replace(path, b"x", Access::Owner).is_err(), "{path:?}");
    }
    // What is written bit by bit may go to a device, or to what is open already.
    for path in ["/dev/null", "/dev/stdout"] {
        create(Path::new(path), Access::Umask).unwrap();
    }
    let file = at.0.join("log");
    std::io::Write::write_all(&mut create(&file, Access::Umask).unwrap(), b"line").unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"line");
}
