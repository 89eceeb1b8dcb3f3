// SPDX-License-Identifier: Apache-2.0

//! Names of files inside a tree: parts between slashes, none of which is empty, `.` or `..`.

/// The longest name, in bytes.
const LONGEST: usize = 1024;

/// Whether a text is the name of a file inside a tree.
pub fn is_inside(path: &str) -> bool {
    path.len() <= LONGEST
        && !path.chars().any(char::is_control)
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// The name inside a tree of a file that a text of the tree mentions: below the directory that the
/// tree was published from, or relative to it. `None` if it is outside.
pub fn inside(root: &str, path: &str) -> Option<String> {
    let relative = match path.starts_with('/') {
        false => path,
        true => {
            let root = Some(root.trim_end_matches('/')).filter(|root| !root.is_empty())?;
            let rest = path.strip_prefix(root).filter(|rest| rest.starts_with('/'))?;
            rest.trim_start_matches('/')
        }
    };
    let parts = relative.split('/').filter(|part| !matches!(*part, "" | "."));
    let inside = parts.collect::<Vec<_>>().join("/");
    is_inside(&inside).then_some(inside)
}

/// Whether a name matches a pattern of glob(7) without brackets: `*` and `?` do not match a slash,
/// nor a dot at the beginning of a part.
pub fn matches(pattern: &str, path: &str) -> bool {
    let (patterns, parts) = (pattern.split('/'), path.split('/'));
    patterns.clone().count() == parts.clone().count()
        && patterns.zip(parts).all(|(pattern, part)| {
            (!part.starts_with('.') || pattern.starts_with('.'))
                && part_matches(pattern.as_bytes(), part.as_bytes())
        })
}

/// One pass with a place to go back to: the time is at most the product of the lengths.
fn part_matches(pattern: &[u8], part: &[u8]) -> bool {
    let (mut p, mut s) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while s < part.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, s));
                p += 1;
            }
            Some(&c) if c == b'?' || c == part[s] => {
                p += 1;
                s += 1;
            }
            _ => match &mut star {
                Some((at, taken)) => {
                    *taken += 1;
                    (p, s) = (*at + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_outside_the_tree_have_no_place_in_it() {
        for (path, expected) in [
            ("main.nft", Some("main.nft")),
            ("./main.nft", Some("main.nft")),
            ("/etc/nft/main.nft", Some("main.nft")),
            ("/etc/nft//rules/./a.nft", Some("rules/a.nft")),
            ("/etc/nft", None),
            ("/etc/nftables/a", None),
            ("/etc/shadow", None),
            ("rules/../../shadow", None),
            ("..", None),
            ("", None),
            ("a\nb", None),
        ] {
            assert_eq!(inside("/etc/nft", path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn patterns_match_as_glob_does() {
        for (pattern, path, expected) in [
            ("*.nft", "a.nft", true),
            ("*.nft", ".a.nft", false),
            (".*.nft", ".a.nft", true),
            ("*.nft", "d/a.nft", false),
            ("d/*", "d/a.nft", true),
            ("d?/a*b*c", "d1/aXbYbc", true),
            ("d?/a*b*c", "d1/aXbYb", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }
}
