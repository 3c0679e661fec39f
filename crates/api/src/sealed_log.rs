//! How pieces of an encrypted log lie one after the other.
//!
//! An encrypted log is a row of `age` files, one for each piece that the runner wrote, because an
//! `age` file cannot be added to. Each is preceded by its length in four bytes, big-endian. The
//! boundaries of what is shipped or read need not be those of the frames: a reader keeps what
//! [`decode_frames`] leaves over and puts the next bytes behind it.
//!
//! ```
//! use canyon_api::sealed_log::{decode_frames, encode_frame};
//!
//! let mut stream = encode_frame(b"one");
//! stream.extend(&encode_frame(b"two")[..5]);
//! let (frames, rest) = decode_frames(&stream)?;
//! assert_eq!(frames, [b"one"]);
//! assert_eq!(rest.len(), 5);
//! # Ok::<(), canyon_api::sealed_log::InvalidFrame>(())
//! ```

/// The longest frame. A runner writes far shorter ones; a longer one is not a frame at all.
pub const MAX_FRAME: usize = 16 * 1024 * 1024;

/// Bytes of the length before each frame.
const HEADER: usize = 4;

/// The bytes are not a row of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not an encrypted log of Canyon, or not its beginning")]
pub struct InvalidFrame;

/// One frame that holds `content`, which must not be longer than [`MAX_FRAME`].
pub fn encode_frame(content: &[u8]) -> Vec<u8> {
    debug_assert!(content.len() <= MAX_FRAME, "a frame of {} bytes", content.len());
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
    let mut frame = Vec::with_capacity(HEADER + content.len());
    frame.extend(length.to_be_bytes());
    frame.extend(content);
    frame
}

/// The whole frames at the beginning of `bytes`, and what is left: the beginning of the next one.
///
/// # Errors
///
/// [`InvalidFrame`] when a length is beyond [`MAX_FRAME`].
pub fn decode_frames(mut bytes: &[u8]) -> Result<(Vec<&[u8]>, &[u8]), InvalidFrame> {
    let mut frames = Vec::new();
    while let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() {
        let length = usize::try_from(u32::from_be_bytes(*header)).unwrap_or(usize::MAX);
        if length > MAX_FRAME {
            return Err(InvalidFrame);
        }
        let Some((frame, next)) = rest.split_at_checked(length) else { break };
        frames.push(frame);
        bytes = next;
    }
    Ok((frames, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_cut_anywhere_come_back_whole_and_in_order() {
        let contents: [&[u8]; 4] = [b"", b"a", &[0xff; 300], b"end"];
        let stream: Vec<u8> = contents.iter().flat_map(|content| encode_frame(content)).collect();
        for cut in 0..=stream.len() {
            let (first, rest) = decode_frames(&stream[..cut]).unwrap();
            let mut found: Vec<Vec<u8>> = first.into_iter().map(<[u8]>::to_vec).collect();
            let later = [rest, &stream[cut..]].concat();
            let (second, rest) = decode_frames(&later).unwrap();
            found.extend(second.into_iter().map(<[u8]>::to_vec));
            assert_eq!(found, contents, "cut at {cut}");
            assert!(rest.is_empty(), "cut at {cut}");
        }
    }

    #[test]
    fn a_plain_log_is_not_taken_for_frames() {
        assert_eq!(decode_frames(b"==> fetch inline"), Err(InvalidFrame));
    }
}
