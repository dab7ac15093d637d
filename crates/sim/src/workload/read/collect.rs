//! Gathers rows into a workload, and what is wrong with the others.

use super::{BAD_KEPT, BadRow, Format, Line, Read, ReadError, Row, Rows, Wrong};
use crate::workload::order::{Draft, ordered};
use crate::workload::{BLOCKS_MAX, Class, REQUESTS_MAX, Request, Slo, Workload};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Longest pause at the start of a trace that is not worth a word.
const QUIET: Duration = Duration::from_secs(3600);

/// Names in the order in which they come up.
#[derive(Default)]
struct Names {
    list: Vec<Arc<str>>,
    places: HashMap<Arc<str>, u16>,
}

impl Names {
    /// The place of `name`; where it is absent, that of the empty name.
    fn place(&mut self, what: &str, name: Option<&str>) -> Result<u16, Wrong> {
        let name = name.unwrap_or("");
        if let Some(place) = self.places.get(name) {
            return Ok(*place);
        }
        let place = u16::try_from(self.list.len())
            .map_err(|_| Wrong::new(format!("more than 65,536 different {what}"), name))?;
        let shared: Arc<str> = name.into();
        self.list.push(shared.clone());
        self.places.insert(shared, place);
        Ok(place)
    }

    /// Nothing where no row has a name.
    fn finish(self) -> Vec<Arc<str>> {
        if self.list.iter().all(|name| name.is_empty()) {
            Vec::new()
        } else {
            self.list
        }
    }
}

pub(super) struct Collector {
    name: Arc<str>,
    format: Format,
    reader: Box<dyn Rows>,
    /// Row numbers from 0, times as the file has them, requests whose `after` is a place in this list.
    rows: Vec<(u64, i128, Request)>,
    seen: u64,
    blocks: usize,
    previous: Option<i128>,
    bad: Vec<BadRow>,
    bad_total: u64,
    out_of_order: u64,
    estimated: u64,
    tenants: Names,
    classes: Names,
    slos: Vec<Slo>,
    max_concurrency: Option<u32>,
}

impl Collector {
    pub(super) fn new(name: &str, format: Format) -> Self {
        Self {
            name: name.into(),
            format,
            reader: format.rows(),
            rows: Vec::new(),
            seen: 0,
            blocks: 0,
            previous: None,
            bad: Vec::new(),
            bad_total: 0,
            out_of_order: 0,
            estimated: 0,
            tenants: Names::default(),
            classes: Names::default(),
            slos: Vec::new(),
            max_concurrency: None,
        }
    }

    pub(super) fn take(&mut self, line: Line) -> Result<(), ReadError> {
        let row = line.text.and_then(|text| self.reader.row(&text));
        match row.and_then(|row| row.map(|row| self.add(row)).transpose()) {
            // A header is no row.
            Ok(None) => return Ok(()),
            Ok(Some(())) => {}
            Err(Wrong { what, value }) => {
                self.bad_total += 1;
                if self.bad.len() < BAD_KEPT {
                    let line = line.number;
                    self.bad.push(BadRow { line, what, value });
                }
            }
        }
        self.seen += 1;
        if self.rows.len() > REQUESTS_MAX || self.blocks > BLOCKS_MAX {
            return Err(ReadError::TooLong);
        }
        Ok(())
    }

    fn add(&mut self, row: Row) -> Result<(), Wrong> {
        let (after, at) = match row.follows {
            Some((before, think)) => (Some(self.followed(before, row.at)?), think),
            None => (None, Duration::ZERO),
        };
        let tenant = self.tenants.place("tenants", row.tenant.as_deref())?;
        let class = self.classes.place("classes", row.class.as_deref())?;
        if self.slos.len() < self.classes.list.len() {
            self.slos.resize(self.classes.list.len(), Slo::default());
        }
        if let Some(slo) = row.slo {
            self.slos[usize::from(class)] = slo;
        }
        self.out_of_order += u64::from(self.previous.is_some_and(|previous| row.at < previous));
        self.previous = Some(row.at);
        self.estimated += u64::from(row.estimated);
        self.max_concurrency = self.max_concurrency.or(row.max_concurrency);
        let request = Request {
            at,
            after,
            prompt_tokens: row.prompt_tokens,
            output_tokens: row.output_tokens,
            blocks: row.blocks.into(),
            session: row.session,
            tenant,
            class,
        };
        self.blocks += request.blocks.len();
        self.rows.push((self.seen, row.at, request));
        Ok(())
    }

    /// Place in the list of row `before`, which a row at `at` says it follows.
    fn followed(&self, before: u64, at: i128) -> Result<u32, Wrong> {
        let place = self
            .rows
            .binary_search_by_key(&before, |(row, ..)| *row)
            .map_err(|_| Wrong::new("`after` must be the number, from 0, of a good row above", before))?;
        if self.rows[place].1 > at {
            return Err(Wrong::new(
                "`timestamp` is before that of the row it follows",
                before,
            ));
        }
        u32::try_from(place).map_err(|_| Wrong::new("`after` is too large", before))
    }

    fn notes(&self, first: Duration) -> Vec<String> {
        let mut notes = Vec::new();
        if self.out_of_order > 0 {
            notes.push(format!(
                "rows out of order in time, sorted into their places: {}",
                self.out_of_order
            ));
        }
        if self.estimated > 0 {
            notes.push(format!(
                "requests whose tokens the gateway estimated: {}",
                self.estimated
            ));
        }
        if first > QUIET {
            notes.push(format!(
                "the first request comes {} s after the start; take a slice to begin with it",
                first.as_secs()
            ));
        }
        notes
    }

    pub(super) fn finish(self) -> Result<Read, ReadError> {
        let Some(earliest) = self.rows.iter().map(|(_, at, _)| *at).min() else {
            return Err(match self.bad.into_iter().next() {
                Some(first) => ReadError::Nothing {
                    format: self.format,
                    rows: self.bad_total,
                    first,
                },
                None => ReadError::Empty,
            });
        };
        let start = if self.reader.dated() { earliest } else { 0 };
        let since = |at: i128| Duration::from_nanos(u64::try_from(at - start).unwrap_or(u64::MAX));
        let notes = self.notes(since(earliest));
        let drafts = self.rows.into_iter().map(|(_, at, mut request)| {
            let nominal = since(at);
            if request.after.is_none() {
                request.at = nominal;
            }
            Draft { nominal, request }
        });
        let requests = ordered(drafts.collect());
        let classes = self.classes.finish().into_iter().zip(self.slos);
        let workload = Workload {
            name: self.name.to_string(),
            requests,
            block_tokens: self.reader.block_tokens(),
            tenants: self.tenants.finish(),
            classes: classes.map(|(name, slo)| Class { name, slo }).collect(),
            max_concurrency: self.max_concurrency,
        };
        Ok(Read {
            workload,
            format: self.format,
            bad: self.bad,
            bad_total: self.bad_total,
            out_of_order: self.out_of_order,
            notes,
        })
    }
}
