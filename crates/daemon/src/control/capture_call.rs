// SPDX-License-Identifier: Apache-2.0

//! What `penstock capture` asks for.

/// A capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureCall {
    /// Family of the hook, as nft names it.
    pub family: String,
    /// Hook, as nft names it.
    pub hook: String,
    /// Where in the hook, as nft writes it: a number, a name, a name with an offset.
    pub priority: String,
    /// Only frames that came by this device or leave by it.
    pub device: Option<String>,
    /// Bytes of each frame.
    pub snaplen: u32,
    /// In place of a hook: what rules log to this group.
    pub group: Option<u16>,
    /// Matches, in the language of rules.
    pub expression: String,
}

impl CaptureCall {
    /// As a message has them, each field a word.
    pub fn words(&self) -> [String; 7] {
        [
            self.family.clone(),
            self.hook.clone(),
            self.priority.clone(),
            self.device.clone().unwrap_or_default(),
            self.snaplen.to_string(),
            self.group.map_or_else(String::new, |group| group.to_string()),
            self.expression.clone(),
        ]
    }

    /// Decodes the words of a message; `None` for unknown words or malformed numbers.
    pub fn of(words: Vec<String>) -> Option<Self> {
        let [family, hook, priority, device, snaplen, group, expression] = words.try_into().ok()?;
        let group = if group.is_empty() { None } else { Some(group.parse().ok()?) };
        let device = Some(device).filter(|d| !d.is_empty());
        let snaplen = snaplen.parse().ok()?;
        Some(CaptureCall { family, hook, priority, device, snaplen, group, expression })
    }

    /// Whether the words that become part of a ruleset are sound, from any client.
    pub fn is_sound(&self) -> bool {
        let word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric());
        let priority = |text: &str| {
            !text.is_empty()
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b" +-".contains(&b))
        };
        let device = |text: &String| !text.bytes().any(|b| b == b'"' || b.is_ascii_control());
        word(&self.family)
            && word(&self.hook)
            && priority(&self.priority)
            && self.device.iter().all(device)
            && self.is_balanced()
    }

    /// Braces of sets are allowed, as long as none closes what is not of the expression; nothing
    /// else ends it.
    fn is_balanced(&self) -> bool {
        let mut depth = 0i32;
        let within = self.expression.chars().all(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth >= 0 && !matches!(c, '\n' | ';' | '#')
        });
        within && depth == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(expression: &str) -> CaptureCall {
        CaptureCall {
            family: "inet".into(),
            hook: "forward".into(),
            priority: "filter - 10".into(),
            device: Some("eth0".into()),
            snaplen: 96,
            group: None,
            expression: expression.into(),
        }
    }

    #[test]
    fn capture_calls_survive_encoding() {
        for group in [None, Some(7)] {
            let call = CaptureCall { group, ..call("tcp dport { 22, 80 }") };
            assert_eq!(CaptureCall::of(call.words().to_vec()), Some(call));
        }
        assert_eq!(CaptureCall::of(vec!["inet".into()]), None);
    }

    #[test]
    fn a_capture_expression_cannot_contain_other_statements() {
        for expression in
            ["", "tcp dport { 22, 80 }", "ip saddr . tcp dport { 198.18.0.1 . 1-2 } ct state new"]
        {
            assert!(call(expression).is_sound(), "{expression}");
        }
        for expression in
            ["tcp dport 22; flush ruleset", "tcp dport 1 }", "tcp dport 1\naccept", "} {", "a # b"]
        {
            assert!(!call(expression).is_sound(), "{expression}");
        }
        assert!(!CaptureCall { device: Some("a\" }".into()), ..call("") }.is_sound());
        assert!(!CaptureCall { priority: "0; }".into(), ..call("") }.is_sound());
    }
}
