//! The log of what really happened: one line for each thing that a device did, written when it was launched.
//!
//! `uj` is the energy above idle. `tag` is what `simgpu_tag` was last given in the launching thread; `capture_tag` the same at the time of
//! capture, for what a graph replays, else empty. Leaves out idle energy (`Place::energy_uj`).

use std::io::{Error, Result};
use std::path::Path;

/// The first line of the log.
pub const HEADER: &str = "gpu,pid,tid,correlation,kind,name,tag,capture_tag,stream,bytes,start_ns,end_ns,uj";

/// One line of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// The device.
    pub gpu: usize,
    /// The launching process.
    pub pid: u32,
    /// The launching thread.
    pub tid: u32,
    /// CUPTI's number of the launching call.
    pub correlation: u32,
    /// `kernel`, `h2d`, `d2h`, `d2d` or `memset`.
    pub kind: String,
    /// The kernel's name; of anything else its kind again.
    pub name: String,
    /// The tag of the launching call.
    pub tag: String,
    /// The tag of the call that was captured, of what a graph replays.
    pub capture_tag: String,
    /// The stream, as a number.
    pub stream: u64,
    /// Bytes moved or set; of a kernel 0.
    pub bytes: u64,
    /// When it started on the device, in nanoseconds of `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Energy above idle in microjoules.
    pub uj: f64,
}

impl Launch {
    /// The line of the log, with its end. Commas in names become semicolons.
    pub fn line(&self) -> String {
        let Self { gpu, pid, tid, correlation, kind, stream, bytes, start_ns, end_ns, uj, .. } = self;
        let clean = |text: &str| text.replace([',', '\n'], ";");
        let (name, tag, capture_tag) = (clean(&self.name), clean(&self.tag), clean(&self.capture_tag));
        format!(
            "{gpu},{pid},{tid},{correlation},{kind},{name},{tag},{capture_tag},{stream},{bytes},{start_ns},{end_ns},{uj:.3}\n"
        )
    }

    fn parse(line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.split(',').collect();
        let [gpu, pid, tid, correlation, kind, name, tag, capture_tag, stream, bytes, start_ns, end_ns, uj] =
            cells.as_slice()
        else {
            return None;
        };
        Some(Self {
            gpu: gpu.parse().ok()?,
            pid: pid.parse().ok()?,
            tid: tid.parse().ok()?,
            correlation: correlation.parse().ok()?,
            kind: (*kind).to_owned(),
            name: (*name).to_owned(),
            tag: (*tag).to_owned(),
            capture_tag: (*capture_tag).to_owned(),
            stream: stream.parse().ok()?,
            bytes: bytes.parse().ok()?,
            start_ns: start_ns.parse().ok()?,
            end_ns: end_ns.parse().ok()?,
            uj: uj.parse().ok()?,
        })
    }
}

/// Reads the log of a simulated machine's folder.
///
/// # Errors
/// When it cannot be read, or a line is none of ours.
pub fn read(folder: &Path) -> Result<Vec<Launch>> {
    let text = std::fs::read_to_string(crate::place::truth_file(folder))?;
    let lines = text.lines().skip(1);
    lines
        .map(|line| Launch::parse(line).ok_or_else(|| Error::other(format!("not a launch: {line}"))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::Launch;

    /// A line is read back as it was written.
    #[test]
    fn round_trip() {
        let launch = Launch {
            gpu: 1,
            pid: 7,
            tid: 8,
            correlation: 9,
            kind: "kernel".to_owned(),
            name: "gemm".to_owned(),
            tag: "forward".to_owned(),
            capture_tag: String::new(),
            stream: 2,
            bytes: 0,
            start_ns: 10,
            end_ns: 20,
            uj: 2.125,
        };
        assert_eq!(Launch::parse(launch.line().trim_end()), Some(launch));
        assert_eq!(Launch::parse("no launch"), None);
    }
}
