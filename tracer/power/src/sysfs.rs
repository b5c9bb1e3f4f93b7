//! Folders and short texts of sysfs. What cannot be read counts as not there.
//!
//! Leaves out files of one number that are read again and again (`counter_file`).

use energy_trace_model::collections::Order as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Names in a folder, in the order of their numbers: `hwmon2` before `hwmon10`.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.order_by_key(|name| (name.len(), name.clone()));
    names
}

/// The same as paths.
pub(super) fn entries(folder: &Path) -> Vec<PathBuf> {
    names(folder).into_iter().map(|name| folder.join(name)).collect()
}

/// A file's text without the white space around it.
pub(super) fn text(file: &Path) -> Option<String> {
    fs::read_to_string(file).ok().map(|text| text.trim().to_owned())
}

/// Graphics cards: each one's name and the folder of its device. Connectors, `card0-DP-1`, are none.
pub(super) fn cards(sysfs: &Path) -> Vec<(String, PathBuf)> {
    let root = sysfs.join("class/drm");
    let is_card =
        |name: &String| name.strip_prefix("card").is_some_and(|digits| digits.parse::<u32>().is_ok());
    let cards = names(&root).into_iter().filter(is_card);
    cards.map(|name| (name.clone(), root.join(name).join("device"))).collect()
}

/// A sensor's chip and file, `hwmon3/power1_average`: the last two parts of its path, but for a `device` between them.
pub(super) fn chip_and_file(path: &Path) -> String {
    let parts = path.iter().map(|part| part.to_string_lossy());
    let parts: Vec<_> = parts.filter(|part| part != "device").collect();
    parts.get(parts.len().saturating_sub(2)..).unwrap_or_default().join("/")
}

#[cfg(test)]
mod tests {
    use super::{cards, chip_and_file, entries, names, text};
    use std::fs;
    use std::path::Path;

    /// Numbers are in order, connectors are no cards, and what is not there is nothing.
    #[test]
    fn folders_and_texts() {
        let sysfs = tempfile::tempdir().unwrap();
        let root = sysfs.path().join("class/drm");
        for name in ["card10", "card2", "card2-DP-1", "renderD128", "cardx"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        assert_eq!(names(&root)[..3], ["card2", "cardx", "card10"]);
        assert_eq!(entries(&root)[0], root.join("card2"));
        let cards = cards(sysfs.path());
        assert_eq!(cards.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["card2", "card10"]);
        assert_eq!(cards[0].1, root.join("card2/device"));
        fs::write(root.join("name"), " amdgpu\n").unwrap();
        assert_eq!((text(&root.join("name")).as_deref(), text(&root.join("none"))), (Some("amdgpu"), None));
        assert!(names(&root.join("none")).is_empty());
        let chip = Path::new("/sys/class/hwmon/hwmon3/device/power1_average");
        assert_eq!(chip_and_file(chip), "hwmon3/power1_average");
    }
}
