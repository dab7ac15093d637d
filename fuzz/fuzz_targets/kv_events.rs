#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weighbridge_fuzz_targets::kv_events::check(data));
