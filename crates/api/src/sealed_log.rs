//! Framing of encrypted logs.
//!
//! An encrypted log is a sequence of `age` files, one for each part that the runner wrote, because
//! data cannot be appended to an `age` file. Each file is preceded by its length in four bytes,
//! big-endian. Parts that are sent or read may end anywhere in a frame: a reader keeps the rest
//! that [`decode_frames`] returns and appends the next bytes to it.
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

/// Longest frame, in bytes. A runner writes far shorter ones, so a longer length is not that of a
/// frame.
pub const MAX_FRAME: usize = 16 * 1024 * 1024;

/// Number of bytes of the length before each frame.
const HEADER: usize = 4;

/// The bytes are not a sequence of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not an encrypted log of Canyon, or not its beginning")]
pub struct InvalidFrame;

/// Encodes `content` as one frame. It must not be longer than [`MAX_FRAME`].
pub fn encode_frame(content: &[u8]) -> Vec<u8> {
    debug_assert!(content.len() <= MAX_FRAME, "a frame of {} bytes", content.len());
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
    let mut frame = Vec::with_capacity(HEADER + content.len());
    frame.extend(length.to_be_bytes());
    frame.extend(content);
    frame
}

/// The complete frames at the start of `bytes`, and the rest: the start of the next frame.
///
/// # Errors
///
/// [`InvalidFrame`] if a length is greater than [`MAX_FRAME`].
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
    fn frames_that_are_cut_anywhere_decode_completely_and_in_order() {
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
    fn a_plain_log_is_not_decoded_as_frames() {
        assert_eq!(decode_frames(b"==> fetch inline"), Err(InvalidFrame));
    }
}
