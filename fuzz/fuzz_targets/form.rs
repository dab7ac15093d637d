#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weighbridge_fuzz_targets::form::check(data));
