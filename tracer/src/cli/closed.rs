//! Programs that the user who is to run them cannot reach.
//!
//! Leaves out files that are no programs (`meant`).

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Why a file that is a program could not be started: the outermost folder above it that not everybody may enter, or above what it is a link
/// to, as in an environment of Python; or the file itself.
pub(super) fn closed_folder(program: &Path) -> Option<String> {
    let typed = std::path::absolute(program).ok()?;
    let linked = typed.canonicalize().ok()?;
    let is = if linked == typed {
        "the file is a program".to_owned()
    } else {
        format!("it is the program {}", linked.display())
    };
    Some(match outermost_closed(&typed).or_else(|| outermost_closed(&linked)) {
        Some(folder) => format!(
            "{is}, but not every user may enter the folder {}: put it elsewhere, or record as root with --as-root",
            folder.display()
        ),
        None => format!("{is}, but not for this user: see `ls -l {}`", linked.display()),
    })
}

fn outermost_closed(file: &Path) -> Option<&Path> {
    let is_closed =
        |folder: &&Path| folder.metadata().is_ok_and(|found| found.permissions().mode() & 0o001 == 0);
    file.ancestors().skip(1).filter(is_closed).last()
}

#[cfg(test)]
mod tests {
    use super::closed_folder;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    /// A program in a folder that is closed to others is not told to become one: the folder is named, also where a link leads into it.
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
        let link = dir.path().join("venv-python3");
        std::os::unix::fs::symlink(&program, &link).unwrap();
        let said = closed_folder(&link).unwrap();
        assert!(said.contains(&format!("{}, but", program.display())), "{said}");
        assert!(said.contains(&format!("the folder {}:", closed.display())), "{said}");
        mode(&closed, 0o755);
        assert!(closed_folder(&program).unwrap().contains("ls -l"));
    }
}
