//! Encryption of the pieces of a kept plan, with AES-256-GCM: a random nonce, then the ciphertext with its tag.
//!
//! The name of a piece is authenticated with it, so that no piece opens in the place of another.
//!
//! ```
//! use canyon_api::sealed_plan::{open, seal};
//! use canyon_domain::plan_task::{PlanKey, PlanPiece};
//!
//! let key = PlanKey::new([7; 32]);
//! let sealed = seal(&key, 1, PlanPiece::File(0), b"the plan".to_vec())?;
//! assert_eq!(open(&key, 1, PlanPiece::File(0), sealed.clone())?, b"the plan");
//! assert!(open(&key, 1, PlanPiece::File(1), sealed.clone()).is_err());
//! assert!(open(&key, 2, PlanPiece::File(0), sealed).is_err());
//! # Ok::<(), canyon_api::sealed_plan::NotOpened>(())
//! ```

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::rand;
use canyon_domain::plan_task::{PlanKey, PlanPiece};

/// A piece of a plan does not open: it was changed, or belongs elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it was changed after it was stored, or is of another plan")]
pub struct NotOpened;

/// Encrypts a piece of the plan of attempt `attempt`.
///
/// # Errors
///
/// [`NotOpened`] if the machine has no random numbers.
pub fn seal(
    key: &PlanKey,
    attempt: u32,
    piece: PlanPiece,
    mut bytes: Vec<u8>,
) -> Result<Vec<u8>, NotOpened> {
    let mut nonce = [0; NONCE_LEN];
    rand::fill(&mut nonce).map_err(|_| NotOpened)?;
    cipher(key)?
        .seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            place(attempt, piece),
            &mut bytes,
        )
        .map_err(|_| NotOpened)?;
    bytes.splice(..0, nonce);
    Ok(bytes)
}

/// Decrypts a piece.
///
/// # Errors
///
/// [`NotOpened`].
pub fn open(
    key: &PlanKey,
    attempt: u32,
    piece: PlanPiece,
    mut sealed: Vec<u8>,
) -> Result<Vec<u8>, NotOpened> {
    let (nonce, rest) = sealed.split_at_mut_checked(NONCE_LEN).ok_or(NotOpened)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| NotOpened)?;
    let length = cipher(key)?
        .open_in_place(nonce, place(attempt, piece), rest)
        .map_err(|_| NotOpened)?
        .len();
    sealed.drain(..NONCE_LEN);
    sealed.truncate(length);
    Ok(sealed)
}

fn cipher(key: &PlanKey) -> Result<LessSafeKey, NotOpened> {
    let key = UnboundKey::new(&AES_256_GCM, key.expose()).map_err(|_| NotOpened)?;
    Ok(LessSafeKey::new(key))
}

fn place(attempt: u32, piece: PlanPiece) -> Aad<Vec<u8>> {
    Aad::from(format!("{attempt}/{piece}").into_bytes())
}
