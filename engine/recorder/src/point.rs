//! Points: the places in the code that record, each with a static number, a name and a text. It must not hold anything of one
//! record.

/// Most arguments of a point.
pub const ARGUMENTS_MAX: usize = 4;
/// Most points of a table: what the first word of a record in a buffer has room for.
pub(crate) const POINTS_MAX: usize = 1 << 12;

/// What a point is called, and what its records say: a text with `{name}` for each argument, such as
/// `batch of {frames} frames, {bytes} bytes`. Names with a meaning for [`crate::Join`] are in its documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Name, as `stage.what`.
    pub name: &'static str,
    /// Text of its records.
    pub text: &'static str,
}

/// A point with `N` arguments. Made by [`points!`](crate::points), whose table the recorder must have been made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point<const N: usize>(u16);

impl<const N: usize> Point<N> {
    /// For the macro: the point of this place in its table.
    #[doc(hidden)]
    #[must_use]
    pub const fn at(place: usize) -> Self {
        assert!(N <= ARGUMENTS_MAX && place < POINTS_MAX);
        Self(place as u16)
    }

    /// Its place in the table.
    #[must_use]
    pub const fn place(self) -> usize {
        self.0 as usize
    }

    /// What the low 16 bits of a record's first word hold: the place, and the number of arguments.
    #[inline]
    pub(crate) const fn tag(self) -> u64 {
        ((self.0 as u64) << 4) | N as u64
    }
}

/// Arguments of a text, at compile time.
///
/// # Panics
/// When braces don't pair, or an argument has no name.
#[must_use]
pub const fn arguments(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut count, mut open) = (0, 0, None);
    while at < bytes.len() {
        match (bytes[at], open) {
            (b'{', None) => open = Some(at),
            (b'}', Some(from)) if at > from + 1 => {
                count += 1;
                open = None;
            }
            (b'{' | b'}', _) => {
                panic!("the braces of a point's text are {{name}}, each closed before the next")
            }
            _ => {}
        }
        at += 1;
    }
    assert!(open.is_none(), "a brace of a point's text is not closed");
    count
}

/// Declares points and the table of their formats:
///
/// ```
/// recorder::points! {
///     /// Points of an example.
///     pub static TABLE;
///     /// A batch was taken.
///     pub TAKEN = "journal.taken": "batch of {frames} frames up to {sequence}";
/// }
/// assert_eq!(TABLE[TAKEN.place()].name, "journal.taken");
/// ```
///
/// The number of arguments is part of the point's type, so that a record with another number does not compile.
#[macro_export]
macro_rules! points {
    ($(#[$about:meta])* $seen:vis static $table:ident;
     $($(#[$doc:meta])* $vis:vis $point:ident = $name:literal: $text:literal;)+) => {
        $(#[$about])*
        $seen static $table: &[$crate::Format] = &[$($crate::Format { name: $name, text: $text }),+];
        $crate::points!(@each 0; $($(#[$doc])* $vis $point $text;)+);
    };
    (@each $place:expr;) => {};
    (@each $place:expr; $(#[$doc:meta])* $vis:vis $point:ident $text:literal; $($rest:tt)*) => {
        $(#[$doc])*
        $vis const $point: $crate::Point<{ $crate::arguments($text) }> = $crate::Point::at($place);
        $crate::points!(@each $place + 1; $($rest)*);
    };
}

/// A point as a file tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointInfo {
    /// Name.
    pub name: String,
    /// What its records say, in pieces: the text before each argument and its name.
    pieces: Vec<(String, String)>,
    /// What stands behind the last argument.
    tail: String,
}

impl PointInfo {
    /// Takes a text apart; `None` where it is none of a point.
    pub(crate) fn parse(name: String, text: &str) -> Option<Self> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some((before, from)) = rest.split_once('{') {
            let (argument, behind) = from.split_once('}')?;
            if argument.is_empty() || argument.contains('{') || before.contains('}') {
                return None;
            }
            pieces.push((before.to_owned(), argument.to_owned()));
            rest = behind;
        }
        if rest.contains('}') || pieces.len() > ARGUMENTS_MAX {
            return None;
        }
        Some(Self { name, pieces, tail: rest.to_owned() })
    }

    /// Names of its arguments, in order.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().map(|(_, argument)| argument.as_str())
    }

    /// How many arguments.
    #[must_use]
    pub fn count(&self) -> usize {
        self.pieces.len()
    }

    /// Place of the argument of this name.
    #[must_use]
    pub fn place_of(&self, argument: &str) -> Option<usize> {
        self.arguments().position(|name| name == argument)
    }

    /// The text with the arguments' values in it.
    #[must_use]
    pub fn render(&self, values: &[u64]) -> String {
        let mut text = String::new();
        for ((before, _), value) in self.pieces.iter().zip(values) {
            text.push_str(before);
            text.push_str(&value.to_string());
        }
        text.push_str(&self.tail);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_taken_apart_and_put_together() {
        let point =
            PointInfo::parse("a.b".into(), "batch of {frames} frames, {bytes} bytes").expect("a text");
        assert_eq!(point.arguments().collect::<Vec<_>>(), ["frames", "bytes"]);
        assert_eq!(point.place_of("bytes"), Some(1));
        assert_eq!(point.render(&[3, 192]), "batch of 3 frames, 192 bytes");
        assert_eq!(arguments("batch of {frames} frames, {bytes} bytes"), 2);
        for bad in ["{", "}", "{}", "{a", "a}", "{a{b}}", "{a}{b}{c}{d}{e}"] {
            assert_eq!(PointInfo::parse(String::new(), bad), None, "{bad}");
        }
    }
}
