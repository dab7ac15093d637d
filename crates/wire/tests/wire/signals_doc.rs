//! The tables of `docs/signals.md` are those that pages are read by.
//!
//! `WEIGHBRIDGE_BLESS=1 cargo test -p weighbridge-wire --test wire signals_doc` writes them anew.

use std::fmt::Write;
use weighbridge_wire::metrics::{Entry, Origin, Read, Table, engines, gpu_names};

const BEGIN: &str = "<!-- tables: begin -->\n";
const END: &str = "<!-- tables: end -->";

fn known(origin: Origin) -> &'static str {
    match origin {
        Origin::Seen => "seen",
        Origin::Sample => "sample",
        Origin::Documented => "documented",
        Origin::Config => "config",
    }
}

fn metric(entry: &Entry) -> String {
    let only = entry.only.as_ref();
    let only = only.map_or_else(String::new, |(label, value)| format!("{{{label}=\"{value}\"}}"));
    let read = match entry.read {
        Read::Value => String::new(),
        Read::Label(label) => format!(", label `{label}`"),
        Read::Adapters {
            running,
            waiting,
            max,
        } => {
            format!(", labels `{running}`, `{waiting}` (names of adapters) and `{max}`")
        }
    };
    format!("`{}{only}`{read}", entry.name)
}

/// A name that others stand in for, or add to.
fn beside(table: &Table, entry: &Entry) -> &'static str {
    let same = |other: &&Entry| other.signal == entry.signal && other.place == entry.place;
    if entry.place > 0 {
        ", where the one above is missing"
    } else if table.entries.iter().filter(same).count() > 1 {
        ", summed"
    } else {
        ""
    }
}

fn tables() -> String {
    let mut text = String::new();
    for table in engines::ALL {
        let rank = match table.rank {
            "" => String::new(),
            label => format!(" Data-parallel ranks: label `{label}`."),
        };
        let _ = write!(
            text,
            "\n### {}\n\nPage: `{}`.{rank}\n\n",
            table.engine, table.path
        );
        text += "| signal | metric | known |\n|---|---|---|\n";
        for entry in table.entries {
            let (signal, beside) = (entry.signal.as_str(), beside(table, entry));
            let _ = writeln!(
                text,
                "| `{signal}`{beside} | {} | {} |",
                metric(entry),
                known(entry.origin)
            );
        }
    }
    text += "\n### GPU exporters\n\n| says | metric |\n|---|---|\n";
    for (name, says) in gpu_names() {
        let _ = writeln!(text, "| {says} | `{name}` |");
    }
    text.push('\n');
    text
}

#[test]
fn signals_doc_shows_the_tables() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/signals.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (shown, after) = rest.split_once(END).unwrap();
    let wanted = tables();
    if std::env::var_os("WEIGHBRIDGE_BLESS").is_some() {
        std::fs::write(path, format!("{before}{BEGIN}{wanted}{END}{after}")).unwrap();
    } else {
        assert_eq!(
            shown, wanted,
            "write docs/signals.md anew with WEIGHBRIDGE_BLESS=1"
        );
    }
}
