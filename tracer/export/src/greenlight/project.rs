//! Where a call's code comes from: the repository, as it was when the program started, and the line. Leaves out how it is found.

use super::sites::Site;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::Project;
use serde::Serialize;
use std::time::{Duration, UNIX_EPOCH};

/// What is not known is `null`.
#[derive(Serialize)]
pub(super) struct ProjectLine {
    project_name: Option<String>,
    project_repository: Option<String>,
    project_owner: Option<String>,
    project_branch: Option<String>,
    project_commit: Option<String>,
    project_commit_date: Option<String>,
    script_path: Option<String>,
    api_call_line: Option<u32>,
}

impl ProjectLine {
    pub(super) fn of(profile: &Profile, site: &Site) -> Self {
        let nothing = Project::default();
        let project = profile.run.project.as_ref().unwrap_or(&nothing);
        let known = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let (owner, name) = owner_and_name(&project.repository);
        let of_folder = project.root.rsplit('/').next().unwrap_or_default();
        let date =
            |s: u64| humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(s)).to_string();
        Self {
            project_name: known(name).or_else(|| known(of_folder)),
            project_repository: known(&project.repository),
            project_owner: known(owner),
            project_branch: known(&project.branch),
            project_commit: known(&project.commit),
            // A commit of the year 10,000 is nobody's.
            project_commit_date: project
                .committed_s
                .and_then(|s| u64::try_from(s).ok())
                .filter(|s| *s < 253_402_300_800)
                .map(date),
            script_path: site.place.as_ref().map(|(file, _)| absolute(&project.folder, file)),
            api_call_line: site.place.as_ref().map(|(_, line)| *line),
        }
    }
}

/// `https://github.com/owner/name.git`, `git@github.com:owner/name`.
fn owner_and_name(address: &str) -> (&str, &str) {
    let path = address
        .split_once("://")
        .map_or(address, |(_, rest)| rest.split_once('/').map_or("", |(_, path)| path));
    let path = path.trim_end_matches('/').trim_end_matches(".git");
    let path = path.rsplit_once(':').map_or(path, |(_, path)| path);
    let (before, name) = path.rsplit_once('/').unwrap_or(("", path));
    // A folder of this machine has no owner.
    let before = if address.starts_with(['/', '.']) { "" } else { before };
    (before.rsplit('/').next().unwrap_or_default(), name)
}

/// Python has the script's path as it was typed.
fn absolute(folder: &str, file: &str) -> String {
    match file.starts_with('/') || file.starts_with('<') || folder.is_empty() {
        true => file.to_owned(),
        false => format!("{}/{}", folder.trim_end_matches('/'), file.trim_start_matches("./")),
    }
}

#[cfg(test)]
mod tests {
    use super::{absolute, owner_and_name};

    /// Addresses of all kinds have an owner and a name.
    #[test]
    fn addresses() {
        for address in [
            "https://github.com/own/name.git",
            "git@github.com:own/name.git",
            "ssh://host:22/own/name/",
            "https://h/group/own/name",
        ] {
            assert_eq!(owner_and_name(address), ("own", "name"), "{address}");
        }
        assert_eq!((owner_and_name(""), owner_and_name("/srv/name.git")), (("", ""), ("", "name")));
    }

    /// A path is whole where the folder is known.
    #[test]
    fn paths() {
        assert_eq!(absolute("/home/me/", "./train.py"), "/home/me/train.py");
        assert_eq!((absolute("", "train.py"), absolute("/x", "/y.py")), ("train.py".into(), "/y.py".into()));
        assert_eq!(absolute("/x", "<string>"), "<string>");
    }
}
