//! Where fields lie in the running kernel's structs, from `/sys/kernel/btf/vmlinux`.
//!
//! rustc emits no CO-RE relocations, so the BPF side takes these offsets as settings. Leaves out everything of BTF but structs and
//! their members, and the names of enumerations' values. Format: Documentation/bpf/btf.rst, v6.1.

use memmap2::{Mmap, MmapOptions};
use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Deref;
use std::path::Path;
use thiserror::Error;

/// Why kernel types could not be read.
#[derive(Debug, Error)]
pub enum BtfError {
    /// The file is not there or not readable.
    #[error("cannot read the kernel's type information {path}: {cause}")]
    Read {
        /// The file.
        path: String,
        /// What the system says.
        cause: io::Error,
    },
    /// The file is not BTF.
    #[error("{path} is not valid BTF")]
    Damaged {
        /// The file.
        path: String,
    },
    /// A field that is needed is not there.
    #[error("this kernel's {strct} has no field {field}")]
    NoField {
        /// The struct.
        strct: String,
        /// The field.
        field: String,
    },
}

const MAGIC: u16 = 0xeb9f;
/// Where the kernel's own file is; nobody can change it.
pub(crate) const KERNEL: &str = "/sys/kernel/btf/vmlinux";
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_ENUM: u32 = 6;

/// What a file holds.
enum Bytes {
    Read(Vec<u8>),
    Mapped(Mmap),
}

impl Bytes {
    /// The kernel's file is mapped where that can be (Linux 6.16): it is read in pieces of 4 KiB, more than a thousand, otherwise.
    fn of(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        if path == Path::new(KERNEL)
            // SAFETY: the kernel's file stays as it is while the kernel runs.
            && let Ok(mapped) = unsafe { MmapOptions::new().map_copy_read_only(&file) }
        {
            return Ok(Self::Mapped(mapped));
        }
        let mut data = Vec::new();
        file.read_to_end(&mut data)?;
        Ok(Self::Read(data))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Read(data) => data,
            Self::Mapped(data) => data,
        }
    }
}

/// The kernel's structs.
pub struct KernelTypes {
    data: Bytes,
    strings: usize,
    /// Position of each type, by its id (0 is `void`).
    types: Vec<usize>,
}

impl KernelTypes {
    /// Reads a BTF file, as a rule `/sys/kernel/btf/vmlinux`.
    pub fn read(path: &Path) -> Result<Self, BtfError> {
        let name = path.display().to_string();
        let data = Bytes::of(path).map_err(|cause| BtfError::Read { path: name.clone(), cause })?;
        Self::find(data).ok_or(BtfError::Damaged { path: name })
    }

    /// Finds the types in BTF bytes of this machine's byte order; `None` if they are not BTF.
    pub fn parse(data: Vec<u8>) -> Option<Self> {
        Self::find(Bytes::Read(data))
    }

    fn find(data: Bytes) -> Option<Self> {
        let magic = u16::from_le_bytes(data.get(..2)?.try_into().ok()?);
        let header = u32_at(&data, 4)? as usize;
        let start = header + u32_at(&data, 8)? as usize;
        let end = start.checked_add(u32_at(&data, 12)? as usize)?;
        let strings = header + u32_at(&data, 16)? as usize;
        if magic != MAGIC || end > data.len() {
            return None;
        }
        let mut types = vec![0];
        let mut at = start;
        while at < end {
            types.push(at);
            at += 12 + trailer(u32_at(&data, at + 4)?)?;
        }
        Some(Self { data, strings, types })
    }

    /// Offset in bytes of a field such as `se.sum_exec_runtime` in a struct such as `task_struct`.
    pub fn offset_of(&self, strct: &str, field: &str) -> Result<u32, BtfError> {
        Ok(self.bit_of(strct, field)? / 8)
    }

    /// The same in bits, of a field that may be one.
    pub fn bit_of(&self, strct: &str, field: &str) -> Result<u32, BtfError> {
        let missing = || BtfError::NoField { strct: strct.into(), field: field.into() };
        let mut at = self.find_struct(strct).ok_or_else(missing)?;
        let mut bits = 0;
        for name in field.split('.') {
            let (offset, type_id) = self.member(at, name, 0).ok_or_else(missing)?;
            bits += offset;
            at = self.resolve(type_id).unwrap_or(0);
        }
        Ok(bits)
    }

    /// Whether an enumeration of 32-bit values, such as `bpf_func_id`, names a value, such as `BPF_FUNC_loop`.
    pub fn has_value(&self, enumeration: &str, value: &str) -> bool {
        let named =
            |at: usize| kind(self.info(at)) == KIND_ENUM && self.name(at) == Some(enumeration.as_bytes());
        let names = |at: usize| {
            let places = (0..self.vlen(at)).map(move |index| at + 12 + index * 8);
            places.filter_map(|place| self.string(u32_at(&self.data, place)?))
        };
        self.types
            .iter()
            .copied()
            .skip(1)
            .filter(|&at| named(at))
            .flat_map(names)
            .any(|name| name == value.as_bytes())
    }

    fn find_struct(&self, name: &str) -> Option<usize> {
        self.types.iter().copied().skip(1).find(|&at| {
            kind(self.info(at)) == KIND_STRUCT && self.name(at) == Some(name.as_bytes()) && self.vlen(at) > 0
        })
    }

    /// (offset in bits, type) of a member, looked for in nameless members too.
    fn member(&self, at: usize, name: &str, depth: u32) -> Option<(u32, u32)> {
        let info = self.info(at);
        if depth > 8 || !matches!(kind(info), KIND_STRUCT | KIND_UNION) {
            return None;
        }
        for index in 0..self.vlen(at) {
            let place = at + 12 + index * 12;
            let (name_at, type_id, raw) =
                (u32_at(&self.data, place)?, u32_at(&self.data, place + 4)?, u32_at(&self.data, place + 8)?);
            // With the kind flag the upper byte is a bit-field's width.
            let offset = if info >> 31 == 1 { raw & 0x00ff_ffff } else { raw };
            if name_at != 0 && self.string(name_at) == Some(name.as_bytes()) {
                return Some((offset, type_id));
            }
            if name_at == 0
                && let Some(inner) = self.resolve(type_id)
                && let Some((more, found)) = self.member(inner, name, depth + 1)
            {
                return Some((offset + more, found));
            }
        }
        None
    }

    /// Follows typedefs and qualifiers to the type itself.
    fn resolve(&self, mut id: u32) -> Option<usize> {
        for _ in 0..16 {
            let at = *self.types.get(id as usize)?;
            match kind(self.info(at)) {
                8..=11 | 18 => id = u32_at(&self.data, at + 8)?,
                _ => return Some(at),
            }
        }
        None
    }

    fn info(&self, at: usize) -> u32 {
        u32_at(&self.data, at + 4).unwrap_or(0)
    }

    fn vlen(&self, at: usize) -> usize {
        (self.info(at) & 0xffff) as usize
    }

    fn name(&self, at: usize) -> Option<&[u8]> {
        self.string(u32_at(&self.data, at)?)
    }

    fn string(&self, offset: u32) -> Option<&[u8]> {
        self.data.get(self.strings + offset as usize..)?.split(|&b| b == 0).next()
    }
}

fn kind(info: u32) -> u32 {
    info >> 24 & 0x1f
}

/// Bytes behind a type's first twelve.
fn trailer(info: u32) -> Option<usize> {
    let vlen = (info & 0xffff) as usize;
    Some(match kind(info) {
        1 | 14 | 17 => 4,
        3 => 12,
        4 | 5 | 15 | 19 => vlen * 12,
        6 | 13 => vlen * 8,
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(data.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::KernelTypes;
    use std::path::Path;

    /// On the running kernel the fields that the probes need are found, at offsets that fit the struct.
    #[test]
    fn finds_fields_of_the_running_kernel() {
        let types = KernelTypes::read(Path::new("/sys/kernel/btf/vmlinux")).unwrap();
        let pid = types.offset_of("task_struct", "pid").unwrap();
        assert_eq!(types.offset_of("task_struct", "tgid").unwrap(), pid + 4);
        assert!(types.offset_of("task_struct", "thread.fsbase").unwrap() > pid);
        assert!(types.offset_of("task_struct", "no_such_field").is_err());
        assert!(types.offset_of("no_such_struct", "pid").is_err());
        assert!(types.has_value("bpf_func_id", "BPF_FUNC_ringbuf_output"));
        assert!(!types.has_value("bpf_func_id", "BPF_FUNC_no_such_helper"));
        assert!(!types.has_value("no_such_enum", "BPF_FUNC_ringbuf_output"));
    }

    /// Bytes that are not BTF, and BTF cut off anywhere, give `None` or missing fields, never a panic.
    #[test]
    fn damaged_bytes_are_refused() {
        assert!(KernelTypes::parse(b"not btf at all, really not".to_vec()).is_none());
        let whole = std::fs::read("/sys/kernel/btf/vmlinux").unwrap();
        for cut in [0, 1, 3, 10, 23, 24, 30, 1000] {
            if let Some(types) = KernelTypes::parse(whole[..cut].to_vec()) {
                assert!(types.offset_of("task_struct", "pid").is_err());
            }
        }
    }
}
