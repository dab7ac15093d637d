use proptest::prelude::*;
use rmp::encode;

use super::*;

/// Something to encode.
#[derive(Clone, Debug)]
pub(in crate::kv_events) enum V {
    Nil,
    Int(i64),
    Float(f64),
    Bin(Vec<u8>),
    Str(&'static str),
    List(Vec<V>),
    Map(Vec<(&'static str, V)>),
}

pub(in crate::kv_events) fn pack(value: &V) -> Vec<u8> {
    let mut out = Vec::new();
    pack_into(value, &mut out);
    out
}

fn pack_into(value: &V, out: &mut Vec<u8>) {
    match value {
        V::Nil => encode::write_nil(out).unwrap(),
        V::Int(number) => drop(encode::write_sint(out, *number).unwrap()),
        V::Float(number) => encode::write_f64(out, *number).unwrap(),
        V::Bin(bytes) => encode::write_bin(out, bytes).unwrap(),
        V::Str(text) => encode::write_str(out, text).unwrap(),
        V::List(items) => {
            encode::write_array_len(out, u32::try_from(items.len()).unwrap()).unwrap();
            items.iter().for_each(|item| pack_into(item, out));
        }
        V::Map(entries) => {
            encode::write_map_len(out, u32::try_from(entries.len()).unwrap()).unwrap();
            for (key, item) in entries {
                encode::write_str(out, key).unwrap();
                pack_into(item, out);
            }
        }
    }
}

pub(in crate::kv_events) fn ints(numbers: impl IntoIterator<Item = i64>) -> V {
    V::List(numbers.into_iter().map(V::Int).collect())
}

/// A batch as vLLM 0.32 sends it: an array with events as maps, blocks named by digests.
fn vllm() -> V {
    let stored = V::Map(vec![
        ("type", V::Str("BlockStored")),
        (
            "block_hashes",
            V::List(vec![V::Bin(vec![1; 32]), V::Bin(vec![2; 32])]),
        ),
        ("parent_block_hash", V::Bin(vec![9; 32])),
        ("token_ids", ints(0..8)),
        ("block_size", V::Int(4)),
        ("lora_id", V::Nil),
        ("medium", V::Str("GPU")),
        ("lora_name", V::Nil),
        ("extra_keys", V::List(vec![V::Nil, V::Nil])),
        ("group_idx", V::Int(0)),
        ("kv_cache_spec_kind", V::Str("full_attention")),
        ("session_id", V::Str("a field of tomorrow")),
    ]);
    let removed = V::Map(vec![
        ("type", V::Str("BlockRemoved")),
        ("block_hashes", V::List(vec![V::Bin(vec![1; 32])])),
        ("medium", V::Str("GPU")),
        ("group_idx", V::Int(0)),
    ]);
    let cleared = V::Map(vec![("type", V::Str("AllBlocksCleared"))]);
    V::List(vec![
        V::Float(1.5),
        V::List(vec![stored, removed, cleared]),
        V::Int(3),
    ])
}

/// As old publishers send it: arrays in arrays, blocks named by numbers.
fn arrays() -> V {
    let stored = V::List(vec![
        V::Str("BlockStored"),
        ints([-7, 8]),
        V::Nil,
        ints(0..8),
        V::Int(4),
        V::Nil,
    ]);
    let removed = V::List(vec![V::Str("BlockRemoved"), ints([-7])]);
    let cleared = V::List(vec![V::Str("AllBlocksCleared")]);
    V::List(vec![V::Float(1.5), V::List(vec![stored, removed, cleared])])
}

#[test]
fn events_as_maps_are_read() {
    let batch = Batch::decode(&pack(&vllm())).unwrap();
    assert_eq!(
        (batch.seconds, batch.rank, batch.unknown, batch.unusable),
        (1.5, Some(3), 0, 0)
    );
    let names = vec![xxh3_64(&[1; 32]), xxh3_64(&[2; 32])];
    let stored = Stored {
        names: names.clone(),
        parent: Some(xxh3_64(&[9; 32])),
        tokens: (0..8).collect(),
        block_size: 4,
        root: chain::root(None),
        added: vec![],
        group: Some(0),
        whole: true,
    };
    let removed = Event::Removed {
        names: names[..1].to_vec(),
        group: Some(0),
    };
    assert_eq!(batch.events, [Event::Stored(stored), removed, Event::Cleared]);
}

#[test]
fn events_as_arrays_are_read() {
    let batch = Batch::decode(&pack(&arrays())).unwrap();
    assert_eq!((batch.seconds, batch.rank), (1.5, None));
    let names = vec![(-7_i64).cast_unsigned(), 8];
    let Event::Stored(stored) = &batch.events[0] else {
        panic!("{batch:?}")
    };
    assert_eq!((&stored.names, stored.parent, stored.whole), (&names, None, true));
    let removed = Event::Removed {
        names: names[..1].to_vec(),
        group: None,
    };
    assert_eq!(batch.events[1..], [removed, Event::Cleared]);
}

#[test]
fn a_batch_as_a_map_is_read() {
    let V::List(parts) = vllm() else { unreachable!() };
    let [seconds, events, rank] = parts.try_into().unwrap();
    let map = V::Map(vec![
        ("ts", seconds),
        ("data_parallel_rank", rank),
        ("events", events),
        ("new", V::Nil),
    ]);
    assert_eq!(Batch::decode(&pack(&map)), Batch::decode(&pack(&vllm())));
}

fn stored(fields: Vec<(&'static str, V)>) -> Batch {
    let mut event = vec![
        ("type", V::Str("BlockStored")),
        ("block_hashes", ints([1])),
        ("token_ids", ints([5, 6])),
        ("block_size", V::Int(2)),
    ];
    for (key, value) in fields {
        event.retain(|(there, _)| *there != key);
        event.push((key, value));
    }
    Batch::decode(&pack(&V::List(vec![V::Int(0), V::List(vec![V::Map(event)])]))).unwrap()
}

fn block(fields: Vec<(&'static str, V)>) -> (u64, Vec<u64>) {
    match stored(fields).events.as_slice() {
        [Event::Stored(stored)] => (stored.root, stored.added.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn adapters_salts_and_images_are_told_apart() {
    let plain = (chain::root(None), vec![]);
    assert_eq!(block(vec![]), plain);
    assert_eq!(
        block(vec![
            ("lora_id", V::Nil),
            ("lora_name", V::Nil),
            ("extra_keys", V::Nil)
        ]),
        plain
    );
    assert_eq!(block(vec![("extra_keys", V::List(vec![V::List(vec![])]))]), plain);
    // vLLM says the adapter's name among the extra keys as well, which adds nothing.
    let named = ("lora_name", V::Str("law"));
    let law = (chain::root(Some("law")), vec![]);
    assert_eq!(block(vec![named.clone()]), law);
    let said_twice = V::List(vec![V::List(vec![V::Str("law")])]);
    assert_eq!(block(vec![("extra_keys", said_twice), named]), law);
    assert_eq!(
        block(vec![("lora_id", V::Int(3))]),
        (chain::root(Some("#3")), vec![])
    );
    // The salt as vLLM says it and as SGLang does.
    let salted = (chain::root(None), vec![chain::add(0, b"pepper")]);
    assert_eq!(
        block(vec![(
            "extra_keys",
            V::List(vec![V::List(vec![V::Str("pepper")])])
        )]),
        salted
    );
    assert_eq!(block(vec![("cache_salt", V::Str("pepper"))]), salted);
    assert_eq!(
        block(vec![
            ("cache_salt", V::Str("pepper")),
            ("parent_block_hash", V::Int(1))
        ]),
        plain
    );
    let image = V::List(vec![V::List(vec![V::List(vec![V::Str("image"), V::Int(4)])])]);
    assert_ne!(block(vec![("extra_keys", image)]), plain);
}

#[test]
fn what_cannot_be_used_is_counted_and_the_rest_is_read() {
    for fields in [
        vec![("token_ids", ints([1]))],
        vec![("token_ids", V::List(vec![ints([1, 2]), ints([2, 3])]))],
        vec![("token_ids", ints([-1, 2]))],
        vec![("block_size", V::Int(0)), ("token_ids", ints([]))],
        vec![("block_size", V::Nil)],
        vec![("block_hashes", V::Str("x"))],
        vec![("extra_keys", V::List(vec![]))],
    ] {
        let batch = stored(fields.clone());
        assert_eq!((batch.unusable, batch.events.len()), (1, 0), "{fields:?}");
    }
    let batch = stored(vec![("type", V::Str("BlockMoved"))]);
    assert_eq!((batch.unknown, batch.unusable, batch.events.len()), (1, 0, 0));
}

#[test]
fn what_is_not_in_the_device_s_memory_is_left_out() {
    for elsewhere in [
        ("medium", V::Str("CPU")),
        ("medium", V::Str("CPU_PINNED")),
        ("locality", V::Str("REMOTE")),
    ] {
        let batch = stored(vec![elsewhere]);
        assert_eq!((batch.unusable, batch.events.len()), (0, 0));
    }
    assert_eq!(
        stored(vec![("medium", V::Str("GPU")), ("locality", V::Str("LOCAL"))])
            .events
            .len(),
        1
    );
}

#[test]
fn layers_with_a_window_are_told_apart() {
    let whole = |fields| matches!(stored(fields).events.as_slice(), [Event::Stored(stored)] if stored.whole);
    assert!(whole(vec![("kv_cache_spec_kind", V::Str("mla_attention"))]));
    assert!(!whole(vec![("kv_cache_spec_kind", V::Str("sliding_window"))]));
    assert!(!whole(vec![("kv_cache_spec_kind", V::Str("mamba"))]));
    assert!(!whole(vec![("kv_cache_spec_sliding_window", V::Int(128))]));
}

#[test]
fn a_removal_that_cannot_be_read_breaks_its_batch() {
    let removed = V::Map(vec![
        ("type", V::Str("BlockRemoved")),
        ("block_hashes", V::List(vec![V::Nil])),
    ]);
    let error = Batch::decode(&pack(&V::List(vec![V::Int(0), V::List(vec![removed])]))).unwrap_err();
    assert_eq!(error.expected, "a whole number");
}

#[test]
fn errors_say_where() {
    let error = Batch::decode(&[0x92, 0x01, 0xc0]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "expected an array, 0 bytes before the end of the batch"
    );
    assert!(Batch::decode(b"").is_err());
    assert!(Batch::decode(b"{}").is_err());
}

/// Announced lengths are not believed: five bytes do not make four billion elements.
#[test]
fn announced_lengths_allocate_nothing() {
    for marker in [0xdd_u8, 0xdf, 0xdb, 0xc6, 0xc9] {
        let mut hostile = vec![0x92, 0x00, marker];
        hostile.extend([0xff; 4]);
        assert!(Batch::decode(&hostile).is_err());
        let mut inside = vec![0x92, 0x00, 0x91, 0x82, 0xa4];
        inside.extend(b"type");
        inside.push(0xac);
        inside.extend(b"BlockRemoved");
        inside.push(0xac);
        inside.extend(b"block_hashes");
        inside.push(marker);
        inside.extend([0xff; 4]);
        assert!(Batch::decode(&inside).is_err());
    }
    // Deep nesting costs no stack.
    let mut deep = vec![0x92, 0x00, 0x91];
    deep.extend(std::iter::repeat_n(0x91, 200_000));
    assert!(Batch::decode(&deep).is_err());
    deep.push(0x01);
    assert!(Batch::decode(&deep).is_err());
}

#[test]
fn no_prefix_of_a_batch_is_a_batch() {
    for whole in [pack(&vllm()), pack(&arrays())] {
        assert!(Batch::decode(&whole).is_ok());
        for end in 0..whole.len() {
            assert!(Batch::decode(&whole[..end]).is_err(), "{end} of {}", whole.len());
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Batch::decode(&bytes);
    }

    #[test]
    fn changed_batches_are_taken(at in 0_usize..400, byte: u8, maps: bool) {
        let mut bytes = pack(&if maps { vllm() } else { arrays() });
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = Batch::decode(&bytes);
    }
}
