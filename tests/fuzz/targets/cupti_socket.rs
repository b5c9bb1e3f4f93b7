//! Any bytes from the socket of injected libraries: frames that come out again as they went in, each no longer than what there is, or nonsense.
#![no_main]

use energy_trace_cupti::wire::{Frame, decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Some((frame, length))) = decode(rest) {
        assert!(length <= rest.len() && length > 4);
        let mut again = Vec::new();
        encode(&frame, &mut again);
        // A text that is longer than what is sent is cut.
        if !matches!(&frame, Frame::Name(_, text) | Frame::Hello { trouble: text, .. } if text.len() > 16 << 10)
        {
            assert_eq!(decode(&again).map(|found| found.map(|(frame, _)| frame)), Ok(Some(frame)));
        }
        rest = &rest[length..];
    }
});
