//! As much of SVG as the timeline needs.

use std::fmt::Display;

/// An image under construction.
#[derive(Debug)]
pub(crate) struct Svg {
    text: String,
}

/// How a text stands at its point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Type {
    pub(crate) size: u32,
    pub(crate) colour: &'static str,
    pub(crate) bold: bool,
    /// `start`, `middle` or `end`.
    pub(crate) anchor: &'static str,
}

impl Svg {
    pub(crate) fn new(width: f64, height: f64, title: &str) -> Svg {
        let mut svg = Svg {
            text: format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
                 width=\"{width}\" height=\"{height}\" role=\"img\" \
                 font-family=\"Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif\">\n\
                 <title>{}</title>\n",
                escaped(title)
            ),
        };
        svg.rect(0.0, 0.0, width, height, "#ffffff");
        svg
    }

    fn push(&mut self, element: impl Display) {
        self.text += &format!("{element}\n");
    }

    pub(crate) fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, fill: &str) {
        if width > 0.0 && height > 0.0 {
            self.push(format_args!(
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{fill}\"/>"
            ));
        }
    }

    /// A horizontal or other line; `dashes` as in `stroke-dasharray`, empty for none.
    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str, dashes: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let dashes = match dashes {
            "" => String::new(),
            dashes => format!(" stroke-dasharray=\"{dashes}\""),
        };
        self.push(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{stroke}\"{dashes}/>"
        ));
    }

    pub(crate) fn text(&mut self, x: f64, y: f64, style: Type, text: &str) {
        self.turned_text(x, y, style, "", text);
    }

    /// A text that reads upwards.
    pub(crate) fn upright(&mut self, x: f64, y: f64, style: Type, text: &str) {
        let turn = format!(" transform=\"rotate(-90 {x:.1} {y:.1})\"");
        self.turned_text(x, y, style, &turn, text);
    }

    fn turned_text(&mut self, x: f64, y: f64, style: Type, turn: &str, text: &str) {
        let Type {
            size,
            colour,
            bold,
            anchor,
        } = style;
        let weight = if bold { " font-weight=\"bold\"" } else { "" };
        self.push(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" fill=\"{colour}\" \
             text-anchor=\"{anchor}\"{weight}{turn}>{}</text>",
            escaped(text)
        ));
    }

    /// Round dots, all of one colour.
    pub(crate) fn dots(
        &mut self,
        points: impl IntoIterator<Item = (f64, f64)>,
        size: f64,
        colour: &str,
    ) {
        let dots: String = (points.into_iter())
            .map(|(x, y)| format!("M{x:.1} {y:.1}h0"))
            .collect();
        if !dots.is_empty() {
            self.push(format_args!(
                "<path d=\"{dots}\" stroke=\"{colour}\" stroke-width=\"{size}\" \
                 stroke-linecap=\"round\" stroke-opacity=\"0.75\" fill=\"none\"/>"
            ));
        }
    }

    pub(crate) fn finish(mut self) -> String {
        self.push("</svg>");
        self.text
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_wrote_cannot_break_the_image() {
        let mut svg = Svg::new(100.0, 50.0, "a < b & c");
        svg.dots([], 3.0, "#000");
        let text = svg.finish();
        assert!(text.contains("<title>a &lt; b &amp; c</title>"));
        assert!(!text.contains("<path"));
        assert!(text.ends_with("</svg>\n"));
    }
}
