//! Batches in MessagePack, as today's publishers send them and as those before did.

use super::Event;
use rmp::encode::{
    write_array_len, write_bin, write_f64, write_map_len, write_nil, write_sint, write_str, write_uint,
};

/// In which of their forms events are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Maps, blocks named by digests: vLLM.
    Maps,
    /// Maps, blocks named by signed numbers: SGLang.
    Numbers,
    /// Arrays, blocks named by numbers: both before.
    Arrays,
}

pub(super) fn batch(
    style: Style,
    (seconds, rank): (f64, Option<u32>),
    events: &[Event],
    block: usize,
) -> Vec<u8> {
    let mut out = Vec::new();
    write_array_len(&mut out, if rank.is_some() { 3 } else { 2 }).expect("memory");
    write_f64(&mut out, seconds).expect("memory");
    array(&mut out, events.len());
    for event in events {
        match style {
            Style::Arrays => event_as_array(&mut out, event, block),
            Style::Maps | Style::Numbers => event_as_map(&mut out, style, event, block),
        }
    }
    if let Some(rank) = rank {
        number(&mut out, u64::from(rank));
    }
    out
}

fn event_as_map(out: &mut Vec<u8>, style: Style, event: &Event, block: usize) {
    match event {
        Event::Stored {
            names,
            parent,
            tokens,
        } => {
            map(out, 7, "BlockStored");
            text(out, "block_hashes");
            array(out, names.len());
            names.iter().for_each(|it| name(out, style, it));
            text(out, "parent_block_hash");
            parent_name(out, style, parent.as_ref());
            text(out, "token_ids");
            array(out, tokens.len());
            tokens.iter().for_each(|token| number(out, u64::from(*token)));
            text(out, "block_size");
            number(out, block as u64);
            text(out, "lora_id");
            write_nil(out).expect("memory");
            text(out, "medium");
            text(out, "GPU");
        }
        Event::Removed { name: it } => {
            map(out, 3, "BlockRemoved");
            text(out, "block_hashes");
            array(out, 1);
            name(out, style, it);
            text(out, "medium");
            text(out, "GPU");
        }
        Event::Cleared => map(out, 1, "AllBlocksCleared"),
    }
}

fn event_as_array(out: &mut Vec<u8>, event: &Event, block: usize) {
    match event {
        Event::Stored {
            names,
            parent,
            tokens,
        } => {
            array(out, 6);
            text(out, "BlockStored");
            array(out, names.len());
            names.iter().for_each(|it| name(out, Style::Arrays, it));
            parent_name(out, Style::Arrays, parent.as_ref());
            array(out, tokens.len());
            tokens.iter().for_each(|token| number(out, u64::from(*token)));
            number(out, block as u64);
            write_nil(out).expect("memory");
        }
        Event::Removed { name: it } => {
            array(out, 2);
            text(out, "BlockRemoved");
            array(out, 1);
            name(out, Style::Arrays, it);
        }
        Event::Cleared => {
            array(out, 1);
            text(out, "AllBlocksCleared");
        }
    }
}

fn parent_name(out: &mut Vec<u8>, style: Style, digest: Option<&[u8; 32]>) {
    match digest {
        Some(digest) => name(out, style, digest),
        None => write_nil(out).expect("memory"),
    }
}

fn name(out: &mut Vec<u8>, style: Style, digest: &[u8; 32]) {
    let bits = u64::from_be_bytes(*digest.first_chunk().expect("32 bytes"));
    match style {
        Style::Maps => write_bin(out, digest).expect("memory"),
        Style::Numbers => drop(write_sint(out, bits.cast_signed()).expect("memory")),
        Style::Arrays => number(out, bits),
    }
}

fn map(out: &mut Vec<u8>, entries: u32, kind: &str) {
    write_map_len(out, entries).expect("memory");
    text(out, "type");
    text(out, kind);
}

fn array(out: &mut Vec<u8>, len: usize) {
    write_array_len(out, u32::try_from(len).expect("few")).expect("memory");
}

fn text(out: &mut Vec<u8>, text: &str) {
    write_str(out, text).expect("memory");
}

fn number(out: &mut Vec<u8>, number: u64) {
    write_uint(out, number).expect("memory");
}
