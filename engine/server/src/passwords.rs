//! Passwords: random ones for the demonstration users, kept in the data directory so that commands on the same machine
//! find them, and the first operator's, from the file that the configuration names. Hashing is the gateway's.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

use protocol::UserName;
use rand::RngExt;

use crate::files::{self, Readers};

/// Longest password, as SoupBinTCP's login has room for.
pub const PASSWORD_LENGTH_MAX: usize = 10;
/// File of the demonstration users' passwords in the data directory: one `name password` a line, for its owner only.
pub const DEMONSTRATION_FILE: &str = "demonstration-passwords";

/// Letters and digits that can't be taken for one another.
const ALPHABET: &[u8] = b"abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const FILE_LENGTH_MAX: u64 = 4096;

/// Why passwords are not to be had.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// The file can't be read or written.
    #[error("{}: {error}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The file does not hold what it should.
    #[error("{}: {problem}", file.display())]
    Content {
        /// The file.
        file: PathBuf,
        /// What is wrong, and what would be right.
        problem: String,
    },
}

/// The demonstration users' passwords.
#[derive(Clone, PartialEq, Eq)]
pub struct Passwords(BTreeMap<UserName, String>);

impl Passwords {
    /// Random passwords for `names`.
    #[must_use]
    pub fn random(names: &[UserName]) -> Self {
        Self(names.iter().map(|name| (*name, random_password())).collect())
    }

    /// Those that the data directory holds; `None` where it holds none.
    ///
    /// # Errors
    /// The file can't be read, or is not one of passwords.
    pub fn load(data: &Path) -> Result<Option<Self>, PasswordError> {
        let file = data.join(DEMONSTRATION_FILE);
        let text = files::read_small(&file, FILE_LENGTH_MAX)
            .map_err(|error| PasswordError::File { file: file.clone(), error })?;
        let Some(text) = text else { return Ok(None) };
        let mut passwords = BTreeMap::new();
        for (at, line) in text.lines().enumerate() {
            let entry = line
                .split_once(' ')
                .and_then(|(name, password)| Some((UserName::new(name)?, checked(password)?)));
            let Some((name, password)) = entry else {
                let problem = format!("line {} is not a name and a password", at + 1);
                return Err(PasswordError::Content { file, problem });
            };
            passwords.insert(name, password.to_owned());
        }
        Ok(Some(Self(passwords)))
    }

    /// Keeps them in the data directory.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn store(&self, data: &Path) -> Result<(), PasswordError> {
        let mut text = String::new();
        for (name, password) in &self.0 {
            // A String takes all that is written to it.
            let _ = writeln!(text, "{name} {password}");
        }
        let file = data.join(DEMONSTRATION_FILE);
        files::write_atomically(&file, text.as_bytes(), Readers::Owner)
            .map_err(|error| PasswordError::File { file, error })
    }

    /// The password of a user.
    #[must_use]
    pub fn of(&self, name: &UserName) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&UserName, &str)> {
        self.0.iter().map(|(name, password)| (name, password.as_str()))
    }
}

/// Reads a password from the first line of a file.
///
/// # Errors
/// The file can't be read, or its first line can't be a password.
pub fn read_file(file: &Path) -> Result<String, PasswordError> {
    let wrong = |problem: &str| PasswordError::Content { file: file.to_owned(), problem: problem.to_owned() };
    let text = files::read_small(file, FILE_LENGTH_MAX)
        .map_err(|error| PasswordError::File { file: file.to_owned(), error })?
        .ok_or_else(|| wrong("is not there; write the password into it"))?;
    let password = checked(text.lines().next().unwrap_or_default()).ok_or_else(|| {
        wrong("the first line must be a password of 1 to 10 printable ASCII characters without spaces")
    })?;
    Ok(password.to_owned())
}

/// The text, if it can be a password.
fn checked(text: &str) -> Option<&str> {
    let fits =
        (1..=PASSWORD_LENGTH_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    fits.then_some(text)
}

fn random_password() -> String {
    // The thread's generator is seeded by the system and fit for secrets. 10 of 56 characters are 58 bits.
    let mut random = rand::rng();
    (0..PASSWORD_LENGTH_MAX).map(|_| char::from(ALPHABET[random.random_range(0..ALPHABET.len())])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> [UserName; 2] {
        ["demo", "admin"].map(|name| UserName::new(name).expect("a name"))
    }

    #[test]
    fn passwords_are_kept() {
        let data = tempfile::tempdir().expect("a folder");
        assert!(Passwords::load(data.path()).expect("nothing there").is_none());
        let passwords = Passwords::random(&names());
        passwords.store(data.path()).expect("stored");
        let loaded = Passwords::load(data.path()).expect("loads").expect("there");
        assert!(loaded == passwords);
        assert_eq!(loaded.of(&names()[0]).map(str::len), Some(PASSWORD_LENGTH_MAX));
        assert_ne!(loaded.of(&names()[0]), loaded.of(&names()[1]));
    }

    #[test]
    fn wrong_files_are_named() {
        let data = tempfile::tempdir().expect("a folder");
        let file = data.path().join(DEMONSTRATION_FILE);
        std::fs::write(&file, "demo abc\nnobody\n").expect("written");
        let error = Passwords::load(data.path()).err().expect("refused").to_string();
        assert!(error.ends_with("line 2 is not a name and a password"), "{error}");
        for text in ["", "\nabc", "with space", "eleven chars"] {
            std::fs::write(&file, text).expect("written");
            assert!(read_file(&file).is_err(), "{text:?}");
        }
        std::fs::write(&file, "secret\nmore").expect("written");
        assert_eq!(read_file(&file).expect("read"), "secret");
    }
}
