//! Tokens by which a client that was let in before is let in again, by any member, without the work that a password takes.
//! A token is a seal over the user, its credential and the trading day, made with a key that only the members' memories
//! hold. It must not be written anywhere, and no file or log has a key.
//!
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 4 | trading day of its making, little-endian |
//! | 4 | 32 | BLAKE3, keyed, of context, session, that day, scheme, salt and hash of the user's credential |
//!
//! A client gets it as 72 hexadecimal digits.

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::{TradingDay, UserDefinition};

/// Bytes of a key.
pub const RESUME_KEY_BYTES: usize = 32;
/// What a client asks for a token with, in a debug packet; with `=` and the token behind it, it presents one.
pub(crate) const RESUME: &str = "resume";
/// Keys that are known at most, the newest: a member has a new one after each start.
const KEYS_MAX: usize = 32;
/// Separates this use of the keys from any other.
const CONTEXT: &[u8] = b"ringpit resume 1";
const DAY_BYTES: usize = 4;
const TOKEN_BYTES: usize = DAY_BYTES + blake3::OUT_LEN;

/// The keys that this member knows: its own, with which it seals, and the other members'. Clones are the same.
#[derive(Clone)]
pub struct ResumeKeys {
    own: [u8; RESUME_KEY_BYTES],
    known: Arc<Mutex<VecDeque<[u8; RESUME_KEY_BYTES]>>>,
}

/// A token as a client presents it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token([u8; TOKEN_BYTES]);

impl fmt::Debug for ResumeKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResumeKeys(..)")
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl ResumeKeys {
    /// Knows only its own key, which nobody can foresee and which is new at each start.
    #[must_use]
    pub fn new(own: [u8; RESUME_KEY_BYTES]) -> Self {
        Self { own, known: Arc::new(Mutex::new(VecDeque::from([own]))) }
    }

    /// The own key, for the other members and nobody else.
    #[must_use]
    pub fn own(&self) -> [u8; RESUME_KEY_BYTES] {
        self.own
    }

    /// Takes the key of another member. Anything that is no key is passed over.
    pub fn learn(&self, key: &[u8]) {
        let Ok(key) = <[u8; RESUME_KEY_BYTES]>::try_from(key) else { return };
        let mut known = self.known();
        if known.contains(&key) {
            return;
        }
        // The own key is the first and stays.
        if known.len() >= KEYS_MAX {
            known.remove(1);
        }
        known.push_back(key);
    }

    /// A token for a user who is logged in.
    pub(crate) fn issue(&self, user: &UserDefinition, today: TradingDay) -> Token {
        let mut token = [0; TOKEN_BYTES];
        let (day, seal) = token.split_at_mut(DAY_BYTES);
        day.copy_from_slice(&today.0.to_le_bytes());
        seal.copy_from_slice(sealed(&self.own, user, today).as_bytes());
        Token(token)
    }

    /// Whether a token lets that user in: a member made it for just this user and credential, today or the trading day before.
    pub(crate) fn admits(&self, token: &Token, user: &UserDefinition, today: TradingDay) -> bool {
        let Some((day, seal)) = token.0.split_first_chunk::<DAY_BYTES>() else { return false };
        let day = TradingDay(u32::from_le_bytes(*day));
        let is_timely = day == today || day.0.checked_add(1) == Some(today.0);
        // Hashes are compared in a time that doesn't depend on where they differ.
        is_timely && self.known().iter().any(|key| sealed(key, user, day) == *seal)
    }

    fn known(&self) -> MutexGuard<'_, VecDeque<[u8; RESUME_KEY_BYTES]>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn sealed(key: &[u8; RESUME_KEY_BYTES], user: &UserDefinition, day: TradingDay) -> blake3::Hash {
    let credential = &user.credential;
    let mut hasher = blake3::Hasher::new_keyed(key);
    // Each part has a fixed length, so that no two users have the same bytes.
    hasher.update(CONTEXT).update(&user.session.0.to_le_bytes()).update(&day.0.to_le_bytes());
    hasher.update(&[credential.scheme]).update(&credential.salt).update(&credential.hash);
    hasher.finalize()
}

impl Token {
    /// Reads the text of a debug packet; `None` where it presents no token.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let digits = text.strip_prefix(RESUME.as_bytes())?.strip_prefix(b"=")?;
        let (pairs, rest) = digits.as_chunks::<2>();
        if pairs.len() != TOKEN_BYTES || !rest.is_empty() {
            return None;
        }
        let mut bytes = [0; TOKEN_BYTES];
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            let digit = |digit: u8| char::from(digit).to_digit(16);
            *byte = u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?;
        }
        Some(Self(bytes))
    }

    /// The text of the debug packet that gives it to its owner.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{RESUME}=");
        for byte in self.0 {
            // A String takes all that is written to it.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use protocol::{Credential, Role, SessionId, UserName};

    use super::*;

    fn user(session: u32, hash: u8) -> UserDefinition {
        UserDefinition {
            session: SessionId(session),
            name: UserName::new("demo").expect("a name"),
            role: Role::Trader,
            credential: Credential { scheme: 1, salt: [1; 16], hash: [hash; 32] },
            enabled: true,
            cancel_on_disconnect: false,
            grace_ms: 0,
        }
    }

    #[test]
    fn a_token_admits_its_user_for_two_days_wherever_its_maker_is_known() {
        let (one, two) = (ResumeKeys::new([1; 32]), ResumeKeys::new([2; 32]));
        let token = one.issue(&user(7, 9), TradingDay(5));
        let check = |keys: &ResumeKeys, user: &UserDefinition, day: u32, admits: bool| {
            assert_eq!(keys.admits(&token, user, TradingDay(day)), admits, "day {day}");
        };
        check(&one, &user(7, 9), 5, true);
        check(&one, &user(7, 9), 6, true);
        check(&one, &user(7, 9), 7, false);
        check(&one, &user(7, 9), 4, false);
        // Another user, and the same one with another password.
        check(&one, &user(8, 9), 5, false);
        check(&one, &user(7, 8), 5, false);
        check(&two, &user(7, 9), 5, false);
        two.learn(&one.own());
        check(&two, &user(7, 9), 5, true);
    }

    #[test]
    fn a_token_is_read_as_it_was_written_and_nothing_else_is_one() {
        let token = ResumeKeys::new([3; 32]).issue(&user(1, 1), TradingDay(1));
        let text = token.text();
        assert_eq!(text.len(), "resume=".len() + 72);
        assert!(Token::read(text.as_bytes()) == Some(token));
        for bad in [
            "resume",
            "resume=",
            "resume=00",
            "leader=m1:1",
            &text[1..],
            &format!("{text}0"),
            &format!("{text}00"),
        ] {
            assert!(Token::read(bad.as_bytes()).is_none(), "{bad}");
        }
        assert!(Token::read(text.replace('=', "=g").get(..79).expect("longer").as_bytes()).is_none());
        let changed = match text.strip_suffix('0') {
            Some(rest) => format!("{rest}1"),
            None => format!("{}0", &text[..text.len() - 1]),
        };
        let changed = Token::read(changed.as_bytes()).expect("a token's form");
        assert!(!ResumeKeys::new([3; 32]).admits(&changed, &user(1, 1), TradingDay(1)));
    }

    #[test]
    fn the_own_key_stays_however_many_others_come() {
        let keys = ResumeKeys::new([255; 32]);
        let token = keys.issue(&user(1, 1), TradingDay(1));
        (0..200_u8).for_each(|number| keys.learn(&[number; 32]));
        keys.learn(b"no key");
        assert_eq!(keys.known().len(), KEYS_MAX);
        assert!(keys.admits(&token, &user(1, 1), TradingDay(1)));
    }
}
