//! The result in plain words.

use super::compare::{Difference, Noise, difference, spread};
use super::figures::{Better, Figure, figures};
use super::{Policy, Report, numbers};

/// The result in sentences: which policy is better, by how much, whether that is more than chance, and what it leaves out.
#[must_use]
pub fn headline(report: &Report) -> Vec<String> {
    let mut sentences = result(report);
    sentences.extend(report.about.caveats.iter().cloned());
    sentences
}

fn result(report: &Report) -> Vec<String> {
    if !report.about.found.is_empty() {
        return report.about.found.clone();
    }
    let figures = figures(&report.about.objectives);
    let words = Words {
        report,
        figures: &figures,
    };
    match report.policies.as_slice() {
        [] => vec!["Nothing was simulated.".to_owned()],
        [only] => [Some(words.served(only)), words.beside((only, None), false)]
            .into_iter()
            .flatten()
            .collect(),
        _ => words.compared(),
    }
}

struct Words<'a> {
    report: &'a Report,
    figures: &'a [Figure],
}

/// A figure that decides, with the least difference that matters.
struct Deciding {
    key: &'static str,
    matters: fn(&Difference) -> bool,
}

/// First the share that is served in time, or at all; then how long people wait.
const DECIDING: [Deciding; 4] = [
    Deciding {
        key: "goodput_share",
        matters: |difference| difference.absolute.abs() >= 0.005,
    },
    Deciding {
        key: "answered",
        matters: |difference| difference.relative.is_some_and(|share| share.abs() >= 0.005),
    },
    Deciding {
        key: "ttft_p90_seconds",
        matters: |difference| difference.relative.is_some_and(|share| share.abs() >= 0.02),
    },
    Deciding {
        key: "e2e_p90_seconds",
        matters: |difference| difference.relative.is_some_and(|share| share.abs() >= 0.02),
    },
];

impl<'a> Words<'a> {
    fn compared(&self) -> Vec<String> {
        for deciding in &DECIDING {
            let Some(figure) = self.figure(deciding.key) else {
                continue;
            };
            let Some((best, reference)) = self.best(figure) else {
                continue;
            };
            let Some(change) = difference(reference, best, figure) else {
                continue;
            };
            if (deciding.matters)(&change) && change.noise != Noise::Within {
                let mut sentences = vec![self.won(figure, (best, reference), &change)];
                sentences.extend(self.order(figure));
                sentences.extend(self.beside((best, Some(reference)), figure.key.starts_with("ttft")));
                return sentences;
            }
        }
        self.none_stands_out()
    }

    /// The best by this figure, and whom it is compared with: the first, or the next best where the first is best.
    fn best(&self, figure: &Figure) -> Option<(&'a Policy, &'a Policy)> {
        let ranked = self.ranked(figure);
        let (best, _) = *ranked.first()?;
        let first = self.report.policies.first()?;
        let reference = if std::ptr::eq(best, first) {
            ranked.get(1)?.0
        } else {
            first
        };
        Some((best, reference))
    }

    /// Policies that have the figure, the best first.
    fn ranked(&self, figure: &Figure) -> Vec<(&'a Policy, f64)> {
        let sign = if figure.better == Better::More { -1.0 } else { 1.0 };
        let mean = |policy: &'a Policy| Some((policy, spread(policy, figure)?.mean));
        let mut ranked: Vec<_> = self.report.policies.iter().filter_map(mean).collect();
        ranked.sort_by(|(_, one), (_, other)| (sign * one).total_cmp(&(sign * other)));
        ranked
    }

    fn won(&self, figure: &Figure, (best, reference): (&Policy, &Policy), change: &Difference) -> String {
        let [mean, other] =
            [best, reference].map(|policy| self.mean(policy, &figure.key).unwrap_or_default());
        let chance = self.chance(change, figure);
        let (best, s) = self.equals(figure, mean);
        let reference = &reference.name;
        match figure.key.as_str() {
            "goodput_share" => format!(
                "{best} serve{s} most in time: {} of requests, {reference} {}; {} points more, {chance}.",
                numbers::share(mean),
                numbers::share(other),
                format_args!("{:.1}", change.absolute * 100.0)
            ),
            "answered" => format!(
                "{best} answer{s} most: {} requests, {reference} {}; {} more, {chance}.",
                numbers::counted(mean),
                numbers::counted(other),
                numbers::counted(change.absolute.abs())
            ),
            key => {
                let what = if key.starts_with("ttft") {
                    "first tokens come"
                } else {
                    "answers are complete"
                };
                let sooner = change
                    .relative
                    .map(|share| format!("{:.0} % sooner", share.abs() * 100.0));
                format!(
                    "{best} {} fastest: nine of ten {what} within {}, with {reference} within {}; {}, {chance}.",
                    if s.is_empty() { "are" } else { "is" },
                    numbers::time(mean),
                    numbers::time(other),
                    sooner.unwrap_or_default()
                )
            }
        }
    }

    /// The names of all that are as good as the best, and the ending of a verb about them.
    fn equals(&self, figure: &Figure, mean: f64) -> (String, &'static str) {
        let equal = self
            .ranked(figure)
            .into_iter()
            .filter(|(_, other)| *other == mean);
        let names: Vec<&str> = equal.map(|(policy, _)| policy.name.as_str()).collect();
        match names.as_slice() {
            [.., last] if names.len() > 1 => {
                (format!("{} and {last}", names[..names.len() - 1].join(", ")), "")
            }
            _ => (names.concat(), "s"),
        }
    }

    /// Whether the difference is more than chance.
    fn chance(&self, change: &Difference, figure: &Figure) -> String {
        let seeds = self.report.about.seeds.len();
        match (change.noise, change.margin) {
            (Noise::OneSeed, _) | (_, None) => "by one seed, which cannot tell chance from policy".to_owned(),
            (_, Some(margin)) => {
                let margin = match figure.key.as_str() {
                    "goodput_share" => format!("{:.1} points", margin * 100.0),
                    "answered" => numbers::counted(margin.ceil()),
                    _ => numbers::time(margin),
                };
                format!("more than the noise of {seeds} seeds (± {margin})")
            }
        }
    }

    /// All policies in order, where there are more than two.
    fn order(&self, figure: &Figure) -> Option<String> {
        let ranked = self.ranked(figure);
        if !(3..=8).contains(&ranked.len()) {
            return None;
        }
        let show = |(policy, mean): &(&Policy, f64)| {
            let value = match figure.key.as_str() {
                "goodput_share" => numbers::share(*mean),
                "answered" => numbers::counted(*mean),
                _ => numbers::time(*mean),
            };
            format!("{} {value}", policy.name)
        };
        let all: Vec<String> = ranked.iter().map(show).collect();
        Some(format!("In order: {}.", all.join(", ")))
    }

    fn none_stands_out(&self) -> Vec<String> {
        let what = match self.report.about.seeds.len() {
            0 | 1 => "too small to matter".to_owned(),
            seeds => format!("too small to matter, or within the noise of {seeds} seeds"),
        };
        let first = &self.report.policies[0];
        let mut sentences = vec![
            format!("No policy stands out: differences in what is served and how fast are {what}."),
            self.served(first),
        ];
        sentences.extend(self.beside((first, None), false));
        sentences
    }

    fn served(&self, policy: &Policy) -> String {
        let count = |key| self.mean(policy, key).map(numbers::counted).unwrap_or_default();
        let mut sentence = format!(
            "{} answers {} of {} requests",
            policy.name,
            count("answered"),
            count("requests")
        );
        if let Some(share) = self.mean(policy, "goodput_share") {
            sentence += &format!("; {} of all requests are answered in time", numbers::share(share));
        }
        sentence + "."
    }

    /// First tokens, unless they were `told`, and the cache, which explain most of the rest.
    fn beside(&self, (policy, reference): (&Policy, Option<&Policy>), told: bool) -> Option<String> {
        let both = |key: &str, show: fn(f64) -> String| {
            let mine = self.mean(policy, key)?;
            let other = reference.and_then(|reference| Some((reference, self.mean(reference, key)?)));
            Some(match other {
                Some((reference, other)) => format!("{} ({}: {})", show(mine), reference.name, show(other)),
                None => show(mine),
            })
        };
        let first = both("ttft_p90_seconds", numbers::time).filter(|_| !told);
        let first = first.map(|first| format!("nine of ten first tokens come within {first}"));
        let cache = both("hit_ratio", numbers::share);
        let cache = cache.map(|cache| format!("{cache} of prompt tokens come from the cache"));
        let all: Vec<String> = [first, cache].into_iter().flatten().collect();
        let text = all.join("; ");
        let mut letters = text.chars();
        let initial = letters.next()?.to_uppercase();
        Some(format!("{initial}{}.", letters.as_str()))
    }

    fn mean(&self, policy: &Policy, key: &str) -> Option<f64> {
        spread(policy, self.figure(key)?).map(|spread| spread.mean)
    }

    fn figure(&self, key: &str) -> Option<&'a Figure> {
        self.figures.iter().find(|figure| figure.key == key)
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    fn said(names: &[&str], seeds: u64) -> String {
        headline(&samples::report(names, seeds)).join(" ")
    }

    #[test]
    fn the_better_policy_is_named_with_the_difference_and_the_noise() {
        let text = said(&["plain", "better"], 5);
        assert!(text.starts_with("better serves most in time: "), "{text}");
        assert!(text.contains("more than the noise of 5 seeds"), "{text}");
        let text = said(&["better", "plain"], 5);
        assert!(text.starts_with("better serves most in time: "), "{text}");
        assert!(text.contains("plain"), "it is compared with the next: {text}");
    }

    #[test]
    fn policies_that_are_equal_win_together() {
        let mut report = samples::report(&["plain", "better", "twin"], 3);
        report.policies[2].runs = report.policies[1].runs.clone();
        let text = headline(&report).join(" ");
        assert!(text.starts_with("better and twin serve most in time: "), "{text}");
    }

    #[test]
    fn what_is_within_the_noise_is_no_win() {
        let text = said(&["plain", "same"], 5);
        assert!(text.starts_with("No policy stands out"), "{text}");
        assert!(text.contains("within the noise of 5 seeds"), "{text}");
    }

    #[test]
    fn one_seed_is_said_to_tell_nothing_of_chance() {
        let text = said(&["plain", "better"], 1);
        assert!(text.contains("cannot tell chance from policy"), "{text}");
    }

    #[test]
    fn one_policy_is_described() {
        let text = said(&["plain"], 1);
        assert!(text.starts_with("plain answers "), "{text}");
        assert!(text.contains("in time"), "{text}");
        assert!(text.contains("from the cache"), "{text}");
    }

    #[test]
    fn without_bounds_first_tokens_decide() {
        let mut report = samples::report(&["plain", "better"], 5);
        for run in report.policies.iter_mut().flat_map(|policy| &mut policy.runs) {
            run.served.goodput_share = None;
            run.served.answered = 100;
        }
        let text = headline(&report).join(" ");
        assert!(
            text.starts_with("better is fastest: nine of ten first tokens come within"),
            "{text}"
        );
        assert!(text.contains("% sooner"), "{text}");
    }
}
