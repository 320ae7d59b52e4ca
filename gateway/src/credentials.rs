//! Passwords: Argon2id with fixed parameters. It must not choose a salt: randomness is the caller's.

use argon2::{Algorithm, Argon2, Block, Params, Version};
use protocol::Credential;

/// Number of the only scheme: Argon2id version 0x13, 19 MiB, 2 passes, 1 lane, 32 bytes.
pub const SCHEME: u8 = 1;
/// Bytes of memory that one verification takes.
pub const VERIFICATION_BYTES: u64 = MEMORY_KIB as u64 * 1024;
/// Most characters of a password, as SoupBinTCP's login has room for.
pub const PASSWORD_LENGTH_MAX: usize = 10;

const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;

/// A password that a login packet can't carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a password has 1 to 10 printable ASCII characters without spaces")]
pub struct PasswordError;

/// Verifies passwords one after the other in the same memory.
#[derive(Debug)]
pub struct Verifier {
    memory: Vec<Block>,
}

/// Hashes a password with a salt that nobody could foresee. Takes about 20 ms.
///
/// # Errors
/// [`PasswordError`].
pub fn hash(password: &str, salt: [u8; 16]) -> Result<Credential, PasswordError> {
    let length = 1..=PASSWORD_LENGTH_MAX;
    if !length.contains(&password.len()) || !password.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(PasswordError);
    }
    let hash = Verifier::default().digest(password.as_bytes(), &salt).ok_or(PasswordError)?;
    Ok(Credential { scheme: SCHEME, salt, hash })
}

impl Default for Verifier {
    fn default() -> Self {
        Self { memory: vec![Block::default(); MEMORY_KIB as usize] }
    }
}

impl Verifier {
    /// Whether a password is the credential's. Takes the same time whatever the answer, for an unknown scheme too.
    #[must_use]
    pub fn verify(&mut self, credential: &Credential, password: &[u8]) -> bool {
        let Some(hash) = self.digest(password, &credential.salt) else { return false };
        let difference = hash.iter().zip(credential.hash).fold(0, |sum, (a, b)| sum | (a ^ b));
        credential.scheme == SCHEME && difference == 0
    }

    /// `None` would be a password above 4 GiB.
    fn digest(&mut self, password: &[u8], salt: &[u8; 16]) -> Option<[u8; 32]> {
        let params = Params::new(MEMORY_KIB, PASSES, LANES, Some(32)).ok()?;
        let mut hash = [0; 32];
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into_with_memory(password, salt, &mut hash, &mut self.memory)
            .ok()?;
        Some(hash)
    }
}
