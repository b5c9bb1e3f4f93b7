//! Where libc keeps a thread's own data, by its own word for debuggers, on processors where that hangs on its version.
//!
//! Source: glibc's nptl_db (`structs.def`, `DB_STRUCT_FIELD`: a field's bits, elements and offset). Leaves out libraries other than glibc and musl,
//! and programs without one: there the numbers of glibc 2.36 stay.

use super::memory::Source;
use crate::elf::ElfFacts;
use tracer_ebpf::arch::thread;

/// Symbols to look for in libc: bytes of a thread's descriptor, and where the pointers to thread-specific data lie in it.
pub const SYMBOLS: [&str; 2] = [DESCRIPTOR, BLOCKS];

const DESCRIPTOR: &str = "_thread_db_sizeof_pthread";
const BLOCKS: &str = "_thread_db_pthread_specific";

/// A C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Libc {
    /// It says where it keeps them.
    Glibc,
    /// It does not.
    Musl,
}

/// Which C library a file of this name is, where it has to be known.
pub fn libc_of(path: &str) -> Option<Libc> {
    if !thread::IS_TOLD {
        return None;
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    if name == "libc.so.6" || name.starts_with("libc-2.") {
        return Some(Libc::Glibc);
    }
    name.starts_with("ld-musl-").then_some(Libc::Musl)
}

/// The places, as the walkers have them; `None` where the library does not say. `bias` is from the file's addresses to those in memory.
pub fn read_places(libc: Libc, memory: &impl Source, bias: u64, elf: &ElfFacts) -> Option<u32> {
    const OFFSET: u64 = 8;
    if libc == Libc::Musl {
        return Some(thread::OF_MUSL);
    }
    let half = |name, at| memory.half(bias.wrapping_add(elf.symbol(name)?).wrapping_add(at));
    thread::told_by_libc(half(DESCRIPTOR, 0)?, half(BLOCKS, OFFSET)?)
}

#[cfg(test)]
mod tests {
    use super::{BLOCKS, DESCRIPTOR, Libc, libc_of, read_places, thread};
    use crate::cpython::tests::memory::Words;
    use crate::elf::ElfFacts;
    use std::collections::BTreeMap;

    /// What glibc says of itself, where its symbols lie in memory, and what is known of musl; nothing of other libraries, and of a glibc that does
    /// not say it. Where it is the same in all versions nobody is asked.
    #[test]
    fn by_libcs_own_word() {
        let told = |libc| thread::IS_TOLD.then_some(libc);
        let names =
            ["/usr/lib/libc.so.6", "libc-2.31.so", "/lib/ld-musl-x.so.1", "libcrypto.so.3"].map(libc_of);
        assert_eq!(names, [told(Libc::Glibc), told(Libc::Glibc), told(Libc::Musl), None]);
        let symbols = [(DESCRIPTOR, 0x2000), (BLOCKS, 0x2010)].map(|(name, at)| (name.to_owned(), at, 4));
        let elf = ElfFacts { symbols: symbols.to_vec(), ..ElfFacts::default() };
        // 1856 bytes; elements of 64 bits, 32 of them, 784 bytes in.
        let words = [(0x7000_2000, 1856), (0x7000_2010, 32 << 32 | 64), (0x7000_2018, 784)];
        let memory = Words(BTreeMap::from(words));
        let places = |libc, bias, elf: &ElfFacts| read_places(libc, &memory, bias, elf);
        let of_2_36 = thread::IS_TOLD.then_some(thread::SPECIFIC_DATA);
        assert_eq!(places(Libc::Glibc, 0x7000_0000, &elf), of_2_36);
        assert_eq!(places(Libc::Glibc, 0, &elf), None);
        assert_eq!(places(Libc::Glibc, 0x7000_0000, &ElfFacts::default()), None);
        assert_eq!(places(Libc::Musl, 0, &ElfFacts::default()), Some(thread::OF_MUSL));
    }
}
