//! Programs that the user who is to run them cannot reach.
//!
//! Leaves out files that are no programs (`meant`).

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Why a file that is a program could not be started: the outermost folder above it that not everybody may enter, or the file itself.
pub(super) fn closed_folder(program: &Path) -> Option<String> {
    let whole = std::path::absolute(program).ok()?;
    let above: Vec<&Path> = whole.ancestors().skip(1).collect();
    let is_closed =
        |folder: &&Path| folder.metadata().is_ok_and(|found| found.permissions().mode() & 0o001 == 0);
    let closed = above.into_iter().rev().find(is_closed);
    Some(match closed {
        Some(folder) => format!(
            "the file is a program, but not every user may enter the folder {}: put it elsewhere, or record as root with --as-root",
            folder.display()
        ),
        None => format!("the file is a program, but not for this user: see `ls -l {}`", program.display()),
    })
}

#[cfg(test)]
mod tests {
    use super::closed_folder;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    /// A program in a folder that is closed to others is not told to become one: the folder is named.
    #[test]
    fn a_program_behind_a_closed_folder() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let closed = dir.path().join("home");
        fs::create_dir(&closed).unwrap();
        let program = closed.join("python3");
        fs::write(&program, "").unwrap();
        [(dir.path(), 0o755), (&closed, 0o700), (&program, 0o755)]
            .iter()
            .for_each(|(path, bits)| mode(path, *bits));
        let said = closed_folder(&program).unwrap();
        assert!(said.contains(&format!("the folder {}:", closed.display())), "{said}");
        mode(&closed, 0o755);
        assert!(closed_folder(&program).unwrap().contains("ls -l"));
    }
}
