//! Which of the processes that were started together this is, as launchers tell it in the environment, and
//! names of files that hold it.
//!
//! Leaves out what a rank is for (`merge`, `export`).

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// What launchers set: Open MPI, PMI (MPICH, Intel), PMIx, Slurm. The innermost first: `mpirun` in a batch
/// script inherits Slurm's.
const VARIABLES: [&str; 4] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"];
/// What stands for the rank in a name.
const PLACE: &[u8] = b"%r";

/// A name has a place for the rank, and nobody told one.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("%r in {} is the rank, and {why}", name.display())]
pub(super) struct NotNamed {
    name: PathBuf,
    why: NoRank,
}

/// Why there is no rank.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoRank {
    #[error(
        "none of {list} is set: start this with srun or mpirun; sudo keeps them with -E",
        list = VARIABLES.join(", ")
    )]
    NotSet,
    #[error("{0}={1:?} is none: ranks are numbers such as 0 or 12")]
    NoNumber(&'static str, String),
}

/// The rank, as the environment has it: the first number, written as launchers write them (`+5` and `007` are
/// somebody else's).
pub(super) fn rank(variable: impl Fn(&str) -> Option<String>) -> Result<u32, NoRank> {
    let mut why = NoRank::NotSet;
    for (name, text) in VARIABLES.iter().filter_map(|name| Some((name, variable(name)?))) {
        match text.parse().ok().filter(|rank: &u32| rank.to_string() == text) {
            Some(rank) => return Ok(rank),
            None if why == NoRank::NotSet => why = NoRank::NoNumber(name, text),
            None => {}
        }
    }
    Err(why)
}

/// Whether a name has a place for the rank.
pub(super) fn has_place(path: &Path) -> bool {
    path.as_os_str().as_bytes().windows(PLACE.len()).any(|at| at == PLACE)
}

/// A name with the rank in its places.
pub(super) fn with_rank(path: &Path, rank: &Result<u32, NoRank>) -> Result<PathBuf, NotNamed> {
    if !has_place(path) {
        return Ok(path.to_owned());
    }
    let rank = rank.as_ref().map_err(|why| NotNamed { name: path.to_owned(), why: why.clone() })?.to_string();
    let (mut rest, mut name) = (path.as_os_str().as_bytes(), Vec::new());
    while let Some((&first, behind)) = rest.split_first() {
        match rest.strip_prefix(PLACE) {
            Some(behind) => {
                name.extend(rank.as_bytes());
                rest = behind;
            }
            None => {
                name.push(first);
                rest = behind;
            }
        }
    }
    Ok(std::ffi::OsString::from_vec(name).into())
}

/// The flame graph's name: the recording's, where that has the rank and this one is not chosen.
pub(super) fn flame_graph<'a>(svg: &'a Path, recording: &Path, usual: &OsStr) -> std::borrow::Cow<'a, Path> {
    if svg.as_os_str() == usual && has_place(recording) {
        return recording.with_extension("svg").into();
    }
    svg.into()
}

#[cfg(test)]
mod tests {
    use super::{NoRank, flame_graph, rank, with_rank};
    use std::ffi::OsStr;
    use std::path::Path;

    fn of(variables: &[(&str, &str)]) -> Result<u32, NoRank> {
        rank(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    /// The innermost launcher's is the rank; what is no number is none.
    #[test]
    fn ranks() {
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("OMPI_COMM_WORLD_RANK", "3")]), Ok(3));
        assert_eq!(of(&[("SLURM_PROCID", "7")]), Ok(7));
        assert_eq!(of(&[("PMI_RANK", "x"), ("PMIX_RANK", "1")]), Ok(1));
        assert_eq!(of(&[]), Err(NoRank::NotSet));
        for wrong in ["-1", "007", "+5", "5 ", ""] {
            let refused = NoRank::NoNumber("SLURM_PROCID", wrong.to_owned());
            assert_eq!(of(&[("SLURM_PROCID", wrong)]), Err(refused));
        }
    }

    /// The rank stands in every place of a name; without one such a name is refused, and others are as they
    /// are.
    #[test]
    fn names() {
        let with = |name: &str, rank| with_rank(Path::new(name), &rank);
        assert_eq!(with("d%r/run-%r.data", Ok(12)), Ok("d12/run-12.data".into()));
        assert_eq!(with("100%.data", Err(NoRank::NotSet)), Ok("100%.data".into()));
        assert_eq!(with("%%r", Ok(1)), Ok("%1".into()));
        let refused = |why| with("run-%r.data", Err(why)).unwrap_err().to_string();
        assert!(refused(NoRank::NotSet).contains("none of OMPI_COMM_WORLD_RANK, PMI_RANK"));
        let wrong = NoRank::NoNumber("SLURM_PROCID", "a\x1b".to_owned());
        assert_eq!(
            refused(wrong),
            r#"%r in run-%r.data is the rank, and SLURM_PROCID="a\u{1b}" is none: ranks are numbers such as 0 or 12"#
        );
    }

    /// Ranks do not write one flame graph, unless somebody names it.
    #[test]
    fn flame_graphs() {
        let of = |svg: &str, recording: &str| {
            flame_graph(Path::new(svg), Path::new(recording), OsStr::new("e.svg")).into_owned()
        };
        assert_eq!(of("e.svg", "run-%r.data"), Path::new("run-%r.svg"));
        assert_eq!(of("e.svg", "e.data"), Path::new("e.svg"));
        assert_eq!(of("a-%r.svg", "run-%r.data"), Path::new("a-%r.svg"));
    }
}
