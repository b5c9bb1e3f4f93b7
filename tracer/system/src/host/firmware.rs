//! What firmware says of a machine: whether it is a virtual one. Where a CPU says so itself (x86), that is asked instead.

use std::fs;
use std::path::Path;

/// Whether the firmware that a sysfs shows is that of a virtual machine; `None` where it shows none.
pub fn is_guest_at(sysfs: &Path) -> Option<bool> {
    let files =
        ["class/dmi/id/sys_vendor", "class/dmi/id/product_name", "firmware/devicetree/base/compatible"];
    let [vendor, product, compatible] = files.map(|file| fs::read_to_string(sysfs.join(file)).ok());
    if vendor.is_none() && compatible.is_none() {
        return None;
    }
    let [vendor, product, compatible] = [vendor, product, compatible].map(Option::unwrap_or_default);
    Some(is_guest(&vendor, &product, &compatible))
}

/// From vendor and product of DMI, and the device tree's machine.
fn is_guest(vendor: &str, product: &str, compatible: &str) -> bool {
    const VENDORS: [&str; 5] = ["QEMU", "Amazon EC2", "Google", "VMware", "Xen"];
    const PRODUCTS: [&str; 2] = ["Virtual", "vServer"];
    let of_host = VENDORS.iter().any(|it| vendor.trim().starts_with(it))
        || PRODUCTS.iter().any(|it| product.contains(it));
    (of_host && !product.contains("metal")) || compatible.contains("dummy-virt")
}

#[cfg(test)]
mod tests {
    use super::{is_guest, is_guest_at};
    use std::fs;

    /// Guests of clouds and of QEMU; a machine that a cloud lends whole, and one of its own.
    #[test]
    fn who_is_a_guest() {
        assert!(is_guest("Amazon EC2\n", "m7g.large\n", ""));
        assert!(is_guest("Microsoft Corporation", "Virtual Machine", ""));
        assert!(is_guest("Hetzner", "vServer", ""));
        assert!(is_guest("", "", "linux,dummy-virt"));
        assert!(!is_guest("Amazon EC2", "m7g.metal", ""));
        assert!(!is_guest("NVIDIA", "Grace CPU", ""));
        assert!(!is_guest("", "", "raspberrypi,5-model-b"));
    }

    /// A device tree alone is an answer, and so is DMI; neither is none.
    #[test]
    fn where_it_is_said() {
        let tree = tempfile::tempdir().unwrap();
        assert_eq!(is_guest_at(tree.path()), None);
        let write = |folder: &str, file: &str, text: &str| {
            fs::create_dir_all(tree.path().join(folder)).unwrap();
            fs::write(tree.path().join(folder).join(file), text).unwrap();
            is_guest_at(tree.path())
        };
        assert_eq!(write("firmware/devicetree/base", "compatible", "linux,dummy-virt\0"), Some(true));
        assert_eq!(write("firmware/devicetree/base", "compatible", "nvidia,p3701\0"), Some(false));
        assert_eq!(write("class/dmi/id", "sys_vendor", "QEMU\n"), Some(true));
    }
}
