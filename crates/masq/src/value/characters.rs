//! Where the characters of a text begin, found without counting from its start.

/// The bytes at which some characters of a text begin. The text itself is handed in again for every question.
#[derive(Debug)]
pub(crate) struct Characters {
    /// The byte of each [`STRIDE`]th character; none if every character is one byte.
    bytes: Option<Vec<usize>>,
}

/// Enough to keep the table small beside the text, and few enough to count.
const STRIDE: usize = 64;

impl Characters {
    pub fn of(text: &str) -> Characters {
        let bytes = || text.char_indices().step_by(STRIDE).map(|(byte, _)| byte).collect();
        Characters { bytes: if text.is_ascii() { None } else { Some(bytes()) } }
    }

    /// The byte at which a character begins; the text's end for one behind the last.
    pub fn byte(&self, text: &str, character: usize) -> usize {
        let Some(bytes) = &self.bytes else { return character.min(text.len()) };
        let Some(&byte) = bytes.get(character / STRIDE) else { return text.len() };
        text[byte..].char_indices().nth(character % STRIDE).map_or(text.len(), |(ahead, _)| byte + ahead)
    }

    /// The text between two characters; empty if they are out of order.
    pub fn slice<'text>(&self, text: &'text str, characters: std::ops::Range<usize>) -> &'text str {
        let start = self.byte(text, characters.start);
        &text[start..self.byte(text, characters.end).max(start)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_found_in_texts_of_any_width() {
        for text in ["", "abc", &"x".repeat(200), &"aé日\u{1f300}".repeat(100)] {
            let characters = Characters::of(text);
            for (index, (byte, _)) in text.char_indices().enumerate() {
                assert_eq!(characters.byte(text, index), byte, "{index} of {text}");
            }
            let count = text.chars().count();
            assert_eq!(characters.byte(text, count), text.len());
            assert_eq!(characters.byte(text, count + 1_000), text.len());
        }
    }

    #[test]
    fn a_slice_ends_with_the_text_and_is_empty_where_it_ends_before_it_begins() {
        let text = "añb";
        let slice = |start, end| Characters::of(text).slice(text, start..end);
        assert_eq!((slice(1, 3), slice(1, 9), slice(2, 1)), ("ñb", "ñb", ""));
    }
}
