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
#[error(
    "%r in {0} is the rank, and none of {list} is set: start this with srun or mpirun; sudo keeps them with -E",
    list = VARIABLES.join(", ")
)]
pub(super) struct NoRank(pub PathBuf);

/// The rank, as the environment has it.
pub(super) fn rank(variable: impl Fn(&str) -> Option<String>) -> Option<u32> {
    VARIABLES.iter().find_map(|name| variable(name)?.parse().ok())
}

/// Whether a name has a place for the rank.
pub(super) fn has_place(path: &Path) -> bool {
    path.as_os_str().as_bytes().windows(PLACE.len()).any(|at| at == PLACE)
}

/// A name with the rank in its places.
pub(super) fn with_rank(path: &Path, rank: Option<u32>) -> Result<PathBuf, NoRank> {
    if !has_place(path) {
        return Ok(path.to_owned());
    }
    let rank = rank.ok_or_else(|| NoRank(path.to_owned()))?.to_string();
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

    fn of(variables: &[(&str, &str)]) -> Option<u32> {
        rank(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    /// The innermost launcher's is the rank; what is no number is none.
    #[test]
    fn ranks() {
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("OMPI_COMM_WORLD_RANK", "3")]), Some(3));
        assert_eq!(of(&[("SLURM_PROCID", "7")]), Some(7));
        assert_eq!(of(&[("PMI_RANK", "x"), ("PMIX_RANK", "1")]), Some(1));
        assert_eq!((of(&[]), of(&[("SLURM_PROCID", "-1")])), (None, None));
    }

    /// The rank stands in every place of a name; without one such a name is refused, and others are as they
    /// are.
    #[test]
    fn names() {
        let with = |name: &str, rank| with_rank(Path::new(name), rank);
        assert_eq!(with("d%r/run-%r.data", Some(12)), Ok("d12/run-12.data".into()));
        assert_eq!(with("100%.data", None), Ok("100%.data".into()));
        assert_eq!(with("%%r", Some(1)), Ok("%1".into()));
        let refused = NoRank("run-%r.data".into());
        assert!(refused.to_string().contains("SLURM_PROCID"), "{refused}");
        assert_eq!(with("run-%r.data", None), Err(refused));
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
