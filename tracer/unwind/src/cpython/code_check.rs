//! What tells code objects from others, of many at once: a call for the fields of all, one for their strings, one
//! for the characters of these.
//!
//! Leaves out what that is (`tracer_ebpf::code_check`).

use super::layout::CodeLayout;
use super::memory::Source;
use tracer_ebpf::code_check::{CheckPlaces, FIELD_BYTES, Fields, HEAD_BYTES, Said, Text, Words};

/// What tells a code object from another one that lies in its place later: while it is the same, they have one name.
pub type Check = [u64; 2];

/// Of each of these code objects; `None` where it cannot be read.
pub fn read_checks(source: &impl Source, layout: &CodeLayout, codes: &[u64]) -> Vec<Option<Check>> {
    let places = layout.check_places();
    let at = |code: &u64| (code.wrapping_add(u64::from(places.fields)), FIELD_BYTES);
    let words = source.stretches(&codes.iter().map(at).collect::<Vec<_>>());
    let fields: Vec<Option<Fields>> =
        words.iter().map(|words| Some(Fields::of(places, words.as_ref()?))).collect();
    let read = |fields: Vec<u64>| read_texts(source, places, &fields);
    let files = read(fields.iter().map(|fields| fields.map_or(0, |fields| fields.file)).collect());
    let names = read(fields.iter().map(|fields| fields.map_or(0, |fields| fields.name)).collect());
    let check = |((fields, file), name): ((&Option<Fields>, &Option<Said>), &Option<Said>)| {
        Some((*fields)?.with((*file)?, (*name)?))
    };
    fields.iter().zip(&files).zip(&names).map(check).collect()
}

/// Of each of these strings.
fn read_texts(source: &impl Source, places: CheckPlaces, texts: &[u64]) -> Vec<Option<Said>> {
    let at = |text: &u64| match *text {
        0 => (0, 0), // None, of what cannot be read.
        text => (text.wrapping_add(u64::from(places.text)), HEAD_BYTES),
    };
    let heads = source.stretches(&texts.iter().map(at).collect::<Vec<_>>());
    let heads = heads.iter().zip(texts).map(|(head, &at)| Some(Text::of(places, at, head.as_ref()?)));
    let heads: Vec<Option<Text>> = heads.collect();
    let parts: Vec<(u64, u32)> = heads.iter().flatten().flat_map(|head| head.parts()).collect();
    let mut parts = source.stretches(&parts).into_iter();
    heads.iter().map(|head| said((*head)?, &mut parts)).collect()
}

/// What a string says whose parts come next.
fn said(mut text: Text, parts: &mut impl Iterator<Item = Option<Words>>) -> Option<Said> {
    let parts: Vec<Option<Words>> = parts.take(text.parts().count()).collect();
    parts.iter().try_for_each(|part| part.as_ref().map(|part| text.add(part)))?;
    Some(text.said)
}

#[cfg(test)]
mod tests {
    use super::{Check, read_checks};
    use crate::cpython::layout::{CodeLayout, KNOWN};
    use crate::cpython::memory::Source;
    use crate::cpython::tests::memory::Words;
    use tracer_ebpf::code_check::{LastFile, code_check, own_check, read_text};
    use tracer_ebpf::memory::{FRAME_WORDS, Memory};

    const CODE: u64 = 0x10_0000;
    const FILE: u64 = 0x20_0000;
    const NAME: u64 = 0x30_0000;

    impl Memory for Words {
        fn read_word(&self, address: u64) -> Option<u64> {
            self.word(address)
        }

        fn read_frame(&self, address: u64, bytes: u32, out: &mut [u64; FRAME_WORDS]) -> bool {
            let [Some(words)] = self.stretches(&[(address, bytes)])[..] else { return false };
            let whole = bytes.div_ceil(8) as usize;
            out[..whole].copy_from_slice(&words[..whole]);
            true
        }
    }

    /// A code object whose file and name are these, on this line; `hash` of the file's name, where the program asked for it.
    fn program(layout: &CodeLayout, (file, name): (&str, &str), line: u64, hash: Option<u64>) -> Words {
        let mut memory = Words::default();
        memory.0.insert(CODE + layout.filename, FILE);
        memory.0.insert(CODE + layout.qualname, NAME);
        memory.0.insert(CODE + layout.linetable, 0x40_0000);
        memory.0.insert(CODE + (layout.first_line & !7), line << ((layout.first_line & 7) * 8));
        for (at, text, hash) in [(FILE, file, hash), (NAME, name, None)] {
            memory.0.insert(at, 7 + line); // References, which change.
            memory.0.insert(at + layout.string.length, text.chars().count() as u64);
            memory.0.insert(at + layout.string.length + 8, hash.unwrap_or(u64::MAX));
            let (kind, data) = match text.is_ascii() {
                true => (1 | 1 << 3 | 1 << 4, layout.string.ascii_data),
                false => (2 | 1 << 3, layout.string.unicode_data),
            };
            memory.0.insert(at + layout.string.state, kind << layout.string.kind_bit);
            let bytes: Vec<u8> = match text.is_ascii() {
                true => text.bytes().collect(),
                false => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            };
            for (place, part) in (at + data..).step_by(8).zip(bytes.chunks(8)) {
                let mut word = [0; 8];
                word[..part.len()].copy_from_slice(part);
                memory.0.insert(place, u64::from_le_bytes(word));
            }
        }
        memory
    }

    /// What user space and the probes find, which is the same.
    fn check(layout: &CodeLayout, memory: &Words) -> Option<Check> {
        let many = read_checks(memory, layout, &[CODE, CODE]);
        let mut read = ([0x55; FRAME_WORDS], LastFile::default());
        let places = layout.check_places();
        let say = |at| read_text(places, at, &mut [0x55; FRAME_WORDS], memory);
        let probes = code_check(places, CODE, (&mut read.0, &mut read.1), memory, say);
        assert_eq!(many, [probes, probes]);
        assert_eq!(own_check(places, CODE, &mut read.0, memory), probes.map(|[own, _]| own));
        probes
    }

    /// Code objects of which everything lies where it did are told apart by what file and name say, also behind and before many letters, and by the line.
    #[test]
    fn all_in_one_place() {
        let long = "/a/very/long/path/to/many/generated/texts/which/differ/at/their/very/end/".repeat(3);
        for layout in KNOWN.iter().map(|known| known.code) {
            let of =
                |file: &str, name: &str, line| check(&layout, &program(&layout, (file, name), line, None));
            let checks = [
                of("text1.py", "f", 1),
                of("text2.py", "f", 1),
                of("text1.py", "g", 1),
                of("text1.py", "f", 2),
                of(&format!("{long}1.py"), "f", 1),
                of(&format!("{long}2.py"), "f", 1),
                of(&format!("/1{long}{long}.py"), "f", 1),
                of(&format!("/2{long}{long}.py"), "f", 1),
                of(&format!("{long}1{long}.py"), "f", 1),
                of(&format!("{long}2{long}.py"), "f", 1),
                of("пример1.py", "f", 1),
                of("пример2.py", "f", 1),
                of("", "f", 1),
                of("/text1.py", "f", 1),
                of("/text1.py", "g", 1),
            ];
            for (place, check) in checks.iter().enumerate() {
                assert!(check.is_some() && !checks[..place].contains(check), "{place} of {layout:?}");
            }
            assert_eq!(of("text1.py", "f", 1), checks[0]);
            let hashed = |hash| check(&layout, &program(&layout, ("text1.py", "f"), 1, Some(hash)));
            assert!(hashed(5).is_some() && hashed(5) != hashed(6));
        }
    }

    /// Memory that ends.
    struct Upto(u64);

    impl Source for Upto {
        fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
            out.fill(0xff);
            (address.checked_add(out.len() as u64)? <= self.0).then_some(())
        }
    }

    /// One that cannot be read is none, and the others are what they are.
    #[test]
    fn some_cannot_be_read() {
        let layout = KNOWN[6].code;
        let memory = program(&layout, ("text1.py", "f"), 1, None);
        assert_eq!(read_checks(&Upto(CODE), &layout, &[0, CODE, 0]), [None; 3]);
        assert_eq!(read_checks(&memory, &layout, &[]), []);
        let checks = read_checks(&memory, &layout, &[CODE, CODE + 0x1000, CODE]);
        assert!(checks[0].is_some() && checks[0] == checks[2] && checks[0] != checks[1]);
    }
}
