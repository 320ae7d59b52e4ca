//! Decimal text against integers of a known scale: `0.01` at scale 2 is 1. Exact both ways; no floating point.

/// Most decimals that an instrument's prices and quantities have.
pub const SCALE_MAX: u8 = 12;

/// Why text is not a number of the scale.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecimalError {
    /// Not an optional sign, digits, and an optional point with digits.
    #[error("`{0}` is not a decimal number")]
    NotANumber(String),
    /// More decimals than the scale has, other than zeros.
    #[error("`{text}` has more than {scale} decimals")]
    TooManyDecimals {
        /// The text.
        text: String,
        /// Decimals allowed.
        scale: u8,
    },
    /// It does not fit 64 bits at the scale (128 for money).
    #[error("`{0}` is too large")]
    TooLarge(String),
}

/// Reads decimal text as an integer in units of 10^-scale.
///
/// # Errors
/// [`DecimalError`] says what is wrong with the text.
pub fn parse(text: &str, scale: u8) -> Result<i64, DecimalError> {
    i64::try_from(parse_wide(text, scale)?).map_err(|_| DecimalError::TooLarge(text.to_owned()))
}

/// The same for amounts of money, which may be wider.
///
/// # Errors
/// [`DecimalError`] says what is wrong with the text.
pub fn parse_wide(text: &str, scale: u8) -> Result<i128, DecimalError> {
    let not_a_number = || DecimalError::NotANumber(text.to_owned());
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !all_digits(whole) || !all_digits(fraction) {
        return Err(not_a_number());
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > usize::from(scale) {
        return Err(DecimalError::TooManyDecimals { text: text.to_owned(), scale });
    }
    let zeros = usize::from(scale) - fraction.len();
    let mut value: i128 = 0;
    for digit in whole.bytes().chain(fraction.bytes()).chain(std::iter::repeat_n(b'0', zeros)) {
        let digit = i128::from(digit - b'0');
        value = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(digit))
            .ok_or_else(|| DecimalError::TooLarge(text.to_owned()))?;
    }
    Ok(if negative { -value } else { value })
}

/// Reads decimal text that must not be negative.
///
/// # Errors
/// [`DecimalError`] says what is wrong with the text; a sign makes it not a number.
pub fn parse_unsigned(text: &str, scale: u8) -> Result<u64, DecimalError> {
    let value = parse(text, scale)?;
    u64::try_from(value).map_err(|_| DecimalError::NotANumber(text.to_owned()))
}

/// Writes an integer in units of 10^-scale as decimal text with all its decimals.
#[must_use]
pub fn format(value: i128, scale: u8) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let width = usize::from(scale) + 1;
    let digits = format!("{:0>width$}", value.unsigned_abs());
    let (whole, fraction) = digits.split_at(digits.len() - usize::from(scale));
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, scale: u8, value: i64, back: &str) {
        assert_eq!(parse(text, scale), Ok(value), "{text} at scale {scale}");
        assert_eq!(format(value.into(), scale), back, "{value} at scale {scale}");
    }

    #[test]
    fn reads_and_writes_exactly() {
        check("0.01", 2, 1, "0.01");
        check("100", 2, 10_000, "100.00");
        check("-3.5", 2, -350, "-3.50");
        check(".5", 1, 5, "0.5");
        check("7.", 0, 7, "7");
        check("1.500", 1, 15, "1.5");
        check("0.00000001", 8, 1, "0.00000001");
        check("-0.05", 2, -5, "-0.05");
        check("9223372036854775807", 0, i64::MAX, "9223372036854775807");
        check("-9223372036854775808", 0, i64::MIN, "-9223372036854775808");
    }

    #[test]
    fn refuses_what_it_can_not_hold() {
        for text in ["", ".", "-", "1,5", "1e3", "+1", " 1", "0x1", "1.2.3", "--1", "١"] {
            assert_eq!(parse(text, 2), Err(DecimalError::NotANumber(text.to_owned())), "{text:?}");
        }
        let many = DecimalError::TooManyDecimals { text: "0.001".to_owned(), scale: 2 };
        assert_eq!(parse("0.001", 2), Err(many));
        for text in ["9223372036854775808", "-9223372036854775809", "99999999999999999999999"] {
            assert_eq!(parse(text, 0), Err(DecimalError::TooLarge(text.to_owned())));
        }
        assert_eq!(
            parse("92233720368547758.08", 2),
            Err(DecimalError::TooLarge("92233720368547758.08".to_owned()))
        );
        assert_eq!(parse_unsigned("-1", 0), Err(DecimalError::NotANumber("-1".to_owned())));
    }
}
