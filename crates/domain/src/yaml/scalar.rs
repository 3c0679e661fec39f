//! The value of a plain scalar: the core schema of YAML 1.2 (10.3.2), limited to what JSON can express.

use super::Tree;

/// The value of a plain scalar.
///
/// Numbers that would change are refused: a number with a leading zero (`012345678901` is an account
/// id, not 12345678901), and one of more than 64 bits where [`Tree::number`] cannot hold it.
///
/// # Errors
///
/// What the scalar is that JSON has not.
pub fn typed<T: Tree>(text: &str) -> Result<T, &'static str> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(T::null()),
        "true" | "True" | "TRUE" => return Ok(T::boolean(true)),
        "false" | "False" | "FALSE" => return Ok(T::boolean(false)),
        ".nan" | ".NaN" | ".NAN" => return Err("not a number; JSON has no such value"),
        _ => {}
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return Err("an infinite number; JSON has no such value");
    }
    if let Some(number) = based(text) {
        return number.and_then(|number| T::number(&number.to_string()).ok_or(TOO_LONG));
    }
    if is_integer(unsigned) {
        if unsigned.len() > 1 && unsigned.starts_with('0') {
            return Err("a number with a leading zero; put it in quotes if it is text");
        }
        return T::number(text.strip_prefix('+').unwrap_or(text)).ok_or(TOO_LONG);
    }
    if is_float(unsigned) {
        let sign = if text.starts_with('-') { "-" } else { "" };
        let text = format!("{sign}{}", float(unsigned));
        return T::number(&text).ok_or("a number that is too large");
    }
    Ok(T::text(text.to_owned()))
}

/// A number with a fraction or an exponent in JSON's form: digits on both sides of the point, and no
/// leading zeros.
fn float(unsigned: &str) -> String {
    let at = unsigned.find(['e', 'E']).unwrap_or(unsigned.len());
    let (mantissa, exponent) = unsigned.split_at(at);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    let fraction = if fraction.is_empty() { "0" } else { fraction };
    if mantissa.contains('.') {
        format!("{whole}.{fraction}{exponent}")
    } else {
        format!("{whole}{exponent}")
    }
}

/// `0x1F` and `0o17`.
fn based(text: &str) -> Option<Result<u64, &'static str>> {
    let (digits, radix) = match (text.strip_prefix("0x"), text.strip_prefix("0o")) {
        (Some(digits), _) => (digits, 16),
        (_, Some(digits)) => (digits, 8),
        (None, None) => return None,
    };
    let known = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    known.then(|| u64::from_str_radix(digits, radix).map_err(|_| TOO_LONG))
}

const TOO_LONG: &str = "a number of more than 64 bits; put it in quotes if it is text";

fn is_integer(unsigned: &str) -> bool {
    !unsigned.is_empty() && unsigned.bytes().all(|b| b.is_ascii_digit())
}

/// `( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?`
fn is_float(unsigned: &str) -> bool {
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let exponent = exponent.is_none_or(|e| is_integer(e.strip_prefix(['-', '+']).unwrap_or(e)));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let mantissa = match mantissa.split_once('.') {
        Some(("", fraction)) => is_integer(fraction),
        Some((whole, fraction)) => is_integer(whole) && digits(fraction),
        None => is_integer(mantissa),
    };
    mantissa && exponent
}
