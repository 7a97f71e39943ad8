//! Colours, and their contrast as WCAG 2.2 defines it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A colour without transparency. `Display` writes `#rrggbb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Color(pub(super) [u8; 3]);

#[derive(Debug, thiserror::Error)]
#[error("a colour is # and three or six hexadecimal digits")]
pub struct InvalidColor;

pub(super) const WHITE: Color = Color([255; 3]);
pub(super) const BLACK: Color = Color([0; 3]);
/// Background in dark mode.
pub(super) const DARK_PAGE: Color = Color([0x11, 0x11, 0x13]);
/// Contrast that texts need (success criterion 1.4.3).
const OF_TEXT: f64 = 4.5;
/// Contrast at which a button is seen as a shape. WCAG demands none, because the label identifies the button.
const OF_SHAPE: f64 = 1.5;

impl Color {
    /// White if it is readable on this colour, otherwise black, which then is.
    #[must_use]
    pub fn label(self) -> Color {
        if self.contrast(WHITE) >= OF_TEXT { WHITE } else { BLACK }
    }

    /// Mixes the colour with `other`, as little as needed to stand out from `page`.
    #[must_use]
    pub(super) fn visible_on(self, page: Color, other: Color) -> Color {
        let mixes = (0..=10).map(|tenths| self.mixed(other, tenths));
        mixes.into_iter().find(|mix| mix.contrast(page) >= OF_SHAPE).unwrap_or(other)
    }

    /// Contrast ratio, from 1 to 21.
    #[must_use]
    pub fn contrast(self, other: Color) -> f64 {
        let (a, b) = (self.luminance(), other.luminance());
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    fn mixed(self, other: Color, tenths: u16) -> Color {
        let mut channels = self.0;
        for (own, other) in channels.iter_mut().zip(other.0) {
            let mixed = (u16::from(*own) * (10 - tenths) + u16::from(other) * tenths) / 10;
            *own = u8::try_from(mixed).unwrap_or(u8::MAX);
        }
        Color(channels)
    }

    fn luminance(self) -> f64 {
        let [red, green, blue] = self.0.map(|channel| {
            let share = f64::from(channel) / 255.0;
            if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }
}

impl FromStr for Color {
    type Err = InvalidColor;

    fn from_str(text: &str) -> Result<Color, InvalidColor> {
        let digits = text.strip_prefix('#').ok_or(InvalidColor)?;
        let digits: Option<Vec<u8>> =
            digits.chars().map(|digit| digit.to_digit(16)?.try_into().ok()).collect();
        match digits.ok_or(InvalidColor)?.as_slice() {
            [r, g, b] => Ok(Color([*r, *g, *b].map(|digit| digit * 17))),
            [r, s, g, h, b, c] => Ok(Color([r * 16 + s, g * 16 + h, b * 16 + c])),
            _ => Err(InvalidColor),
        }
    }
}

impl TryFrom<String> for Color {
    type Error = InvalidColor;

    fn try_from(text: String) -> Result<Color, InvalidColor> {
        text.parse()
    }
}

impl From<Color> for String {
    fn from(color: Color) -> String {
        color.to_string()
    }
}

impl fmt::Display for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(f, "#{red:02x}{green:02x}{blue:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_are_read_in_both_lengths() {
        let color = |text: &str| text.parse::<Color>().map(|color| color.to_string()).ok();
        assert_eq!(color("#0aF").as_deref(), Some("#00aaff"));
        assert_eq!(color("#635BFF").as_deref(), Some("#635bff"));
        for wrong in ["", "#", "635bff", "#12", "#12345", "#1234567", "#gggggg", "red", "#+1+1+1", "#é12"] {
            assert_eq!(color(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn every_accent_has_a_readable_label_and_is_visible_in_both_modes() {
        let channels = || (0..=255).step_by(15).map(|channel| u8::try_from(channel).unwrap());
        for red in channels() {
            for green in channels() {
                for blue in channels() {
                    let accent = Color([red, green, blue]);
                    assert!(accent.contrast(accent.label()) >= OF_TEXT, "{accent}");
                    for (page, other) in [(WHITE, BLACK), (DARK_PAGE, WHITE)] {
                        let shown = accent.visible_on(page, other);
                        assert!(shown.contrast(page) >= OF_SHAPE, "{accent} is shown as {shown} on {page}");
                        assert!(shown.contrast(shown.label()) >= OF_TEXT, "{accent} is shown as {shown}");
                    }
                }
            }
        }
        assert_eq!(WHITE.contrast(BLACK).round() as u32, 21);
    }
}
