//! Estimates the tokens of texts, for comparing with real vocabularies: reads a JSON list of strings from its standard
//! input, and prints a JSON list of numbers. tests/python/test_estimates.py runs it.

use std::error::Error;
use std::io::{self, Write as _};
use weighbridge_wire::TextTokens;

fn main() -> Result<(), Box<dyn Error>> {
    let texts: Vec<String> = serde_json::from_reader(io::stdin().lock())?;
    let estimates: Vec<u64> = texts.iter().map(|text| estimate(text)).collect();
    let told = serde_json::to_string(&estimates)?;
    writeln!(io::stdout().lock(), "{told}")?;
    Ok(())
}

fn estimate(text: &str) -> u64 {
    let mut counted = TextTokens::default();
    counted.add(text);
    counted.tokens()
}
