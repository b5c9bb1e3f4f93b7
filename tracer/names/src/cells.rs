//! Cells of notebooks: files that nobody wrote, told by their names.
//!
//! Leaves out that their module is `__main__` (the recorder says so).

/// The number of the cell that a file stands for, as the notebook shows it or, a Jupyter kernel's, as its file has it: 3 for
/// `<ipython-input-3-8a2e>`, 2731230984 for `/tmp/ipykernel_4711/2731230984.py`.
pub fn cell_of(file: &str) -> Option<&str> {
    let name = file.rsplit('/').next().unwrap_or(file);
    let typed = || name.trim_start_matches('<').strip_prefix("ipython-input-")?.split(['-', '>', '.']).next();
    let of_kernel = || {
        let (folder, name) = file.rsplit_once('/')?;
        folder.rsplit('/').next()?.strip_prefix("ipykernel_")?;
        name.strip_suffix(".py")
    };
    // What editors make of a notebook's path.
    let of_editor = || Some(file.rsplit_once(".ipynb Cell ")?.1.trim_end_matches('\''));
    let number = typed().or_else(of_kernel).or_else(of_editor)?;
    (!number.is_empty() && number.chars().all(|c| c.is_ascii_digit())).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::cell_of;

    /// Cells of IPython, of Jupyter and of editors have their numbers; files have none.
    #[test]
    fn numbers() {
        assert_eq!(cell_of("<ipython-input-3-8a2e6d1c>"), Some("3"));
        assert_eq!(cell_of("/tmp/ipykernel_4711/2731230984.py"), Some("2731230984"));
        assert_eq!(cell_of("/home/me/a.ipynb Cell 12"), Some("12"));
        assert_eq!(cell_of("/tmp/ipython-input-5-149437.py"), Some("5"));
        for file in ["/home/me/12.py", "/tmp/ipykernel_4711/helper.py", "<stdin>", "<ipython-input->", ""] {
            assert_eq!(cell_of(file), None, "{file}");
        }
    }
}
