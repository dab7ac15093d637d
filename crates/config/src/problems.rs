//! What is wrong with a config file: every problem at once, each with its place and the way to mend it.

use serde::Serialize;
use std::fmt;

/// Most problems that are listed; a file with more has one cause, and the first ones show it.
const LISTED_MAX: usize = 100;

/// One thing that is wrong with a file, or will surprise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// Line, from 1; 0 where the problem has no place in the file.
    pub line: usize,
    /// Column in characters, from 1; 0 where the problem has no place in the file.
    pub column: usize,
    /// Where in the config, such as `pools[0].endpoints[1].url`; empty for the whole file.
    pub path: String,
    /// What is wrong. Never holds a secret.
    pub message: String,
    /// How to mend it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        f.write_str(": ")?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, "\n    {hint}")?;
        }
        Ok(())
    }
}

/// Everything that is wrong with a file, in the order of the file; at least one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Problems {
    problems: Vec<Problem>,
    /// What would surprise besides, as far as it could be seen.
    #[serde(skip)]
    warnings: Vec<Problem>,
}

impl Problems {
    /// Sorts the problems by place and cuts the list to a readable length.
    pub(crate) fn new(mut problems: Vec<Problem>) -> Self {
        sort(&mut problems);
        let more = problems.len().saturating_sub(LISTED_MAX);
        problems.truncate(LISTED_MAX);
        if let (Some(last), true) = (problems.last(), more > 0) {
            let message = format!("and {more} more problems");
            problems.push(Problem {
                line: 0,
                column: 0,
                path: String::new(),
                hint: None,
                message,
                ..last.clone()
            });
        }
        Self {
            problems,
            warnings: Vec::new(),
        }
    }

    /// With what was found to surprise.
    pub(crate) fn beside(mut self, mut warnings: Vec<Problem>) -> Self {
        sort(&mut warnings);
        self.warnings = warnings;
        self
    }

    /// What is allowed and will surprise, in the order of the file; not all of it, where a problem hides the rest.
    #[must_use]
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// The problems.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.problems.len()
    }
}

/// Sorts by place in the file; problems of one place keep their order.
pub(crate) fn sort(problems: &mut [Problem]) {
    problems.sort_by_key(|problem| (problem.line, problem.column));
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
