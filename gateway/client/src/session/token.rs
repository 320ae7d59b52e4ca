//! The token that a server gave, by which the next login needs no work on a password. It is never shown.

use std::fmt;

/// Asks for a token, and tells one with `=` and its text behind it.
pub(super) const NAME: &str = "resume";
/// Longest token that is kept: a debug packet of a login has room for it.
const LENGTH_MAX: usize = 512;
/// Closed connections in a row after which it goes without: so a member of an earlier version does, which takes nothing before a
/// login.
const SPURNED_MAX: u8 = 3;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Token {
    text: Option<String>,
    /// Connections in a row that were closed without a word behind it.
    spurned: u8,
}

impl Token {
    /// Takes what the server told.
    pub(super) fn take(&mut self, text: &str) {
        self.text = (1..=LENGTH_MAX).contains(&text.len()).then(|| text.to_owned());
        self.spurned = 0;
    }

    /// The text to send before a login.
    pub(super) fn present(&self) -> Option<String> {
        self.text.as_ref().map(|text| format!("{NAME}={text}"))
    }

    /// A connection was closed before it said anything. Once or twice that is a member that ended just then.
    pub(super) fn spurned(&mut self) {
        self.spurned += 1;
        if self.spurned == SPURNED_MAX {
            (self.text, self.spurned) = (None, 0);
        }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}
