//! What a plain scalar means: the core schema of YAML 1.2 (10.3.2), cut to what JSON can hold.

use serde_json::{Number, Value};

/// The value of a plain scalar.
///
/// Numbers that would change are refused: one with a leading zero (`012345678901` is an account
/// id, not 12345678901) and one that does not fit 64 bits.
pub(crate) fn typed(text: &str) -> Result<Value, &'static str> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "true" | "True" | "TRUE" => return Ok(Value::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(Value::Bool(false)),
        ".nan" | ".NaN" | ".NAN" => return Err("not a number; JSON has no such value"),
        _ => {}
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return Err("an infinite number; JSON has no such value");
    }
    if let Some(number) = based(text) {
        return number.map(Value::from);
    }
    if is_integer(unsigned) {
        return integer(text, unsigned);
    }
    if is_float(unsigned) {
        let number = text.parse().ok().and_then(Number::from_f64);
        return number.map(Value::Number).ok_or("a number that is too large");
    }
    Ok(Value::String(text.to_owned()))
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

fn integer(text: &str, unsigned: &str) -> Result<Value, &'static str> {
    if unsigned.len() > 1 && unsigned.starts_with('0') {
        return Err("a number with a leading zero; put it in quotes if it is text");
    }
    let text = text.strip_prefix('+').unwrap_or(text);
    let signed = text.parse::<i64>().map(Value::from);
    signed.or_else(|_| text.parse::<u64>().map(Value::from)).map_err(|_| TOO_LONG)
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
