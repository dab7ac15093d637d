//! A writer of SVG for the report's plots: an element at a time, every text escaped.

use std::fmt::{Display, Write};

/// Width of a plot, in its own units; a phone shows one about as wide, so a text of 11 units stays readable there.
pub(super) const WIDTH: f64 = 400.0;

/// A drawing.
pub(super) struct Svg {
    body: String,
    open: Vec<&'static str>,
}

impl Svg {
    /// An empty drawing of this height. `id` is unique in the page; `title` and `description` are what screen readers say.
    pub(super) fn new(height: f64, id: &str, (title, description): (&str, &str)) -> Self {
        let body = format!(
            "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\n<title id=\"{id}-t\">{}</title>\n\
             <desc id=\"{id}-d\">{}</desc>\n",
            short(WIDTH),
            short(height),
            escaped(title),
            escaped(description)
        );
        Self {
            body,
            open: vec!["svg"],
        }
    }

    /// A line.
    pub(super) fn line(&mut self, class: &str, [x1, y1, x2, y2]: [f64; 4]) {
        let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(short);
        self.push(format_args!(
            "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>"
        ));
    }

    /// A text; `anchor` is start, middle or end.
    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: &str, text: &str) {
        let (x, y) = (short(x), short(y));
        self.push(format_args!(
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{}</text>",
            escaped(text)
        ));
    }

    /// A path, with a title that shows where the pointer rests on it.
    pub(super) fn path(&mut self, class: &str, data: &str, title: &str) {
        if data.is_empty() {
            return;
        }
        match title {
            "" => self.push(format_args!("<path class=\"{class}\" d=\"{data}\"/>")),
            _ => self.push(format_args!(
                "<path class=\"{class}\" d=\"{data}\"><title>{}</title></path>",
                escaped(title)
            )),
        }
    }

    /// A rectangle.
    pub(super) fn rect(&mut self, class: &str, [x, y, width, height]: [f64; 4], title: &str) {
        let [x, y, width, height] = [x, y, width, height].map(short);
        let title = match title {
            "" => String::new(),
            _ => format!("<title>{}</title>", escaped(title)),
        };
        self.push(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\">{title}</rect>"
        ));
    }

    /// The finished drawing.
    pub(super) fn finish(mut self) -> String {
        while let Some(name) = self.open.pop() {
            let _ = writeln!(self.body, "</{name}>");
        }
        self.body
    }

    fn push(&mut self, element: impl Display) {
        let _ = writeln!(self.body, "{element}");
    }
}

/// A line through points, broken where one is missing.
pub(super) fn polyline(points: impl Iterator<Item = Option<(f64, f64)>>) -> String {
    let mut data = String::new();
    let mut drawing = false;
    for point in points {
        let Some((x, y)) = point else {
            drawing = false;
            continue;
        };
        let command = if drawing { 'L' } else { 'M' };
        let _ = write!(data, "{command}{} {}", short(x), short(y));
        drawing = true;
    }
    data
}

/// A coordinate: a tenth of a unit is finer than a pixel.
pub(super) fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

/// Text for an element or an attribute. What no document may hold becomes U+FFFD.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c.is_control() => escaped.push('\u{fffd}'),
            // Turns the direction of what follows, outside of the name too.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_wherever_they_stand() {
        assert_eq!(
            escaped("<script>\"&'\u{0}\u{202e}"),
            "&lt;script&gt;&quot;&amp;&#39;\u{fffd}\u{fffd}"
        );
        let mut svg = Svg::new(10.0, "x", ("<t>", "<d>"));
        svg.text((1.0, 2.0), "start", "<x>");
        svg.path("c", "M0 0", "<p>");
        svg.rect("c", [0.0; 4], "<r>");
        let text = svg.finish();
        for raw in ["<t>", "<d>", "<x>", "<p>", "<r>"] {
            assert!(!text.contains(raw), "{raw}: {text}");
        }
    }

    #[test]
    fn lines_break_where_a_point_is_missing() {
        let points = [Some((0.0, 1.0)), Some((1.0, 1.25)), None, Some((3.0, 0.04))];
        assert_eq!(polyline(points.into_iter()), "M0 1L1 1.2M3 0");
        assert_eq!(short(-0.01), "0");
    }
}
