//! The token that a server gave, by which the next login needs no work on a password. It is never shown.

use std::fmt;

/// Asks for a token, and tells one with `=` and its text behind it.
pub(super) const NAME: &str = "resume";
/// Longest token that is kept: a debug packet of a login has room for it.
const LENGTH_MAX: usize = 512;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Token(Option<String>);

impl Token {
    /// Takes what the server told.
    pub(super) fn take(&mut self, text: &str) {
        self.0 = (1..=LENGTH_MAX).contains(&text.len()).then(|| text.to_owned());
    }

    /// The text to send before a login.
    pub(super) fn present(&self) -> Option<String> {
        self.0.as_ref().map(|text| format!("{NAME}={text}"))
    }

    pub(super) fn forget(&mut self) {
        self.0 = None;
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}
