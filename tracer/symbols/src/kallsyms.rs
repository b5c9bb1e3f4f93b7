//! Names of the kernel's own functions, by the kernel's word: `/proc/kallsyms`.
//!
//! It has more than a hundred thousand lines, of which those are kept that an address needs. Leaves out the kernel's files on disk.

use super::Place;
use super::symbolizer::name;
use std::fs::File;
use std::io::{self, BufRead, BufReader};

/// The kernel's own functions at these addresses, by the kernel's word; nothing where it does not tell.
pub fn name_kernel(addresses: &[u64]) -> Vec<Place> {
    let found = File::open("/proc/kallsyms").and_then(|file| name_by(BufReader::new(file), addresses));
    found.inspect_err(|error| log::debug!("no symbols of the kernel: {error}")).unwrap_or_default()
}

/// A symbol; without an address: none.
#[derive(Clone, Default)]
struct Symbol {
    address: u64,
    name: String,
}

/// Names addresses by a list of symbols. Each goes to the next symbol below it, of several at one place to the first.
fn name_by(mut list: impl BufRead, addresses: &[u64]) -> io::Result<Vec<Place>> {
    let mut wanted = addresses.to_vec();
    wanted.sort_unstable();
    wanted.dedup();
    // Of each wanted address the last symbol up to it, and above the wanted one before it.
    let mut below = vec![Symbol::default(); wanted.len()];
    let mut line = Vec::new();
    while list.read_until(b'\n', &mut line)? > 0 {
        if let Some((address, name)) = parse(&line)
            && let Some(symbol) = below.get_mut(wanted.partition_point(|&wanted| wanted < address))
            && address > symbol.address
        {
            symbol.address = address;
            symbol.name.clear();
            symbol.name.push_str(&String::from_utf8_lossy(name));
        }
        line.clear();
    }
    Ok(addresses.iter().map(|address| place(&wanted, &below, *address)).collect())
}

/// Address and name in a line such as `ffffffff81000000 T _stext`. Without the right to see addresses all of them are 0. On some processors modules
/// mark so where code begins, and data: `$x`, `$d`.
fn parse(line: &[u8]) -> Option<(u64, &[u8])> {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let (address, _kind, name) = (words.next()?, words.next()?, words.next()?);
    let address = u64::from_str_radix(std::str::from_utf8(address).ok()?, 16).ok()?;
    (address != 0 && !name.starts_with(b"$")).then_some((address, name))
}

fn place(wanted: &[u64], below: &[Symbol], address: u64) -> Place {
    let up_to = below.get(..wanted.partition_point(|&wanted| wanted <= address));
    let symbol = up_to.and_then(|symbols| symbols.iter().rfind(|symbol| symbol.address != 0));
    Place { name: symbol.map(|symbol| name(&symbol.name, None)), ..Place::default() }
}

#[cfg(test)]
mod tests {
    use super::name_by;

    fn names(list: &str, addresses: &[u64]) -> Vec<Option<String>> {
        let places = name_by(list.as_bytes(), addresses).unwrap();
        places.into_iter().map(|place| place.name.map(|name| name.name)).collect()
    }

    /// An address has the symbol at or below it, whatever the order of the list and of what is asked; below the first there is none.
    #[test]
    fn the_symbol_below() {
        let list = "0000000000000000 A percpu\n0000000000000010 T first\n0000000000000010 t second\n\
                    0000000000000040 T last\n0000000000000020 t of_module\t[module]\n0000000000000024 t $x\t[module]\nno line\n";
        let some = |name: &str| Some(name.to_owned());
        let asked = [0x50, 0x10, 0x2f, 0xf, 0x40, 0x18, 0x10, 0x3f];
        let found = [
            some("last"),
            some("first"),
            some("of_module"),
            None,
            some("last"),
            some("first"),
            some("first"),
            some("of_module"),
        ];
        assert_eq!(names(list, &asked), found);
        for (&address, name) in asked.iter().zip(found) {
            assert_eq!(names(list, &[address]), [name], "{address:#x}, asked alone");
        }
    }

    /// Without addresses, or without a list, nothing has a name.
    #[test]
    fn what_is_hidden() {
        assert_eq!(names("0000000000000000 T _stext\n0000000000000000 T _etext\n", &[0x10, 0]), [None, None]);
        assert_eq!(names("", &[0x10]), [None]);
        assert!(names("0000000000000010 T first\n", &[]).is_empty());
    }

    /// The running kernel's list names the function that lies last of all above its neighbours.
    #[test]
    fn the_running_kernel() {
        let list = std::fs::read_to_string("/proc/kallsyms").unwrap();
        let last = list.lines().max_by_key(|line| line.split(' ').next()).unwrap();
        let address = u64::from_str_radix(last.split(' ').next().unwrap(), 16).unwrap();
        assert_eq!(super::name_kernel(&[address])[0].name.is_some(), address != 0);
    }
}
