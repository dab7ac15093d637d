//! Reads metrics in the Prometheus text format.

/// One scrape.
#[derive(Clone, Debug)]
pub struct Metrics {
    samples: Vec<Sample>,
    /// The text it was read from.
    pub text: String,
}

#[derive(Clone, Debug)]
struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

impl Metrics {
    /// Reads a scrape. Lines that are no samples are left out.
    pub fn parse(text: &str) -> Metrics {
        let lines = text.lines().filter(|l| !l.starts_with('#'));
        Metrics {
            samples: lines.filter_map(sample).collect(),
            text: text.to_owned(),
        }
    }

    /// The value of the sample with exactly these labels; 0 if there is none.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let exact = self
            .matching(name, labels)
            .find(|s| s.labels.len() == labels.len());
        exact.map_or(0.0, |s| s.value)
    }

    /// The sum of all samples that have these labels, whatever others they have; 0 if there are none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.matching(name, labels).map(|s| s.value).sum()
    }

    /// True if there is any sample of this name.
    pub fn has(&self, name: &str) -> bool {
        self.matching(name, &[]).next().is_some()
    }

    fn matching<'a>(&'a self, name: &'a str, labels: &'a [(&str, &str)]) -> impl Iterator<Item = &'a Sample> {
        self.samples.iter().filter(move |s| {
            s.name == name
                && labels
                    .iter()
                    .all(|&(k, v)| s.labels.iter().any(|(a, b)| a == k && b == v))
        })
    }
}

fn sample(line: &str) -> Option<Sample> {
    let (name, labels, rest) = match line.split_once('{') {
        Some((name, rest)) => {
            let (labels, rest) = read_labels(rest)?;
            (name, labels, rest)
        }
        None => {
            let (name, rest) = line.split_once(' ')?;
            (name, Vec::new(), rest)
        }
    };
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Sample {
        name: name.trim().to_owned(),
        labels,
        value,
    })
}

fn read_labels(mut rest: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (key, value) = rest.split_once("=\"")?;
        let (value, after) = read_quoted(value)?;
        labels.push((key.trim().to_owned(), value));
        rest = after;
    }
}

fn read_quoted(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut chars = text.char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '"' => return Some((out, &text[i + 1..])),
            '\\' => out.push(match chars.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            c => out.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_values_by_labels() {
        let m = Metrics::parse(concat!(
            "# TYPE a counter\na_total{x=\"1\",y=\"p,}\\\"q\"} 3\na_total{x=\"1\",y=\"z\"} 4 1700\n",
            "b 1e3\nc{} +Inf\njunk\n"
        ));
        assert_eq!(m.value("a_total", &[("y", "p,}\"q"), ("x", "1")]), 3.0);
        assert_eq!(m.value("a_total", &[("x", "1")]), 0.0);
        assert_eq!(m.sum("a_total", &[("x", "1")]), 7.0);
        assert_eq!(m.value("b", &[]), 1000.0);
        assert!(m.value("c", &[]).is_infinite() && m.has("c") && !m.has("junk"));
    }
}
