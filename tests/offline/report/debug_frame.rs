//! `energy-trace debug frame`: what it says of a recording's frames, without privileges, and that help is silent about it.
//!
//! Leaves out each rule's words (`report/frame_stages.rs`).

use super::outputs::golden;
use crate::recording::records::{frame, header};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::FrameId;
use energy_trace_model::recording::file::RecordingWriter;
use energy_trace_model::recording::record::{
    CalledOn, Frame, FrameKind, InstalledPackage, PublicName, Record, Summary,
};
use energy_trace_model::recording::synthetic_frame::SyntheticFrame;
use energy_trace_tests::place::{Place, assert_code, assert_says, text};

fn python(module: &str, name: &str, file: &str) -> Frame {
    let (module, file) = (module.to_owned(), file.to_owned());
    Frame { kind: FrameKind::Python, module, file, line: 7, first_line: 5, address: 0, ..frame(name) }
}

/// A frame for each road to a name, and what packages say of theirs.
fn records() -> Vec<Record> {
    let optimizer = "/v/site-packages/torch/optim/optimizer.py";
    let frames = [
        python("train", "main", "/home/me/train.py"),
        python("torch.optim.optimizer", "Optimizer.add_param_group", optimizer),
        python("mine.models", "Model?.fit", "/deps/mine/models.py"),
        python("__main__", "<module>", "/tmp/ipykernel_7/123.py"),
        frame("cos"),
        Frame { module: "/usr/bin/python3.11".to_owned(), ..frame("python3.11+0x1234") },
        SyntheticFrame::PythonGone.frame(),
    ];
    let public = |module: &str, name: &str, public: &str| PublicName {
        module: module.to_owned(),
        name: name.to_owned(),
        public: public.to_owned(),
    };
    let names = vec![
        public("torch.optim.adam", "Adam", "torch.optim.Adam"),
        public("torch.optim.optimizer", "Optimizer", "torch.optim.Optimizer"),
    ];
    let on = CalledOn::Class { module: "torch.optim.adam".to_owned(), name: "Adam".to_owned() };
    let installed = InstalledPackage { folder: "/deps/".to_owned(), package: "mine".to_owned() };
    let summary = Summary { start: KtimeNs::from_ns(1), end: KtimeNs::from_ns(2), ..Summary::default() };
    let frames = (0..).zip(frames).map(|(id, frame)| Record::Frame(FrameId::new(id), frame));
    let last = [
        Record::CalledOn(FrameId::new(1), on),
        Record::PublicNames(names),
        Record::Installed(vec![installed]),
        Record::Summary(summary),
    ];
    [Record::Header(header())].into_iter().chain(frames).chain(last).collect()
}

/// Frames are found by number, by name and by a part of it, each with its stages.
#[test]
fn frames_of_a_recording() {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let path = place.path("r.data");
    let mut writer = RecordingWriter::over(std::fs::File::create(&path).unwrap(), &path).unwrap();
    records().iter().for_each(|record| writer.write(record).unwrap());
    writer.finish().unwrap();
    let of = |frame: &str| {
        let output = place.run(&["debug", "frame", "r.data", frame]);
        assert_code(&output, 0);
        text(&output.stdout)
    };
    let all: String = (0..7).map(|number: u32| of(&number.to_string())).collect();
    golden("debug-frame.txt", &all);
    assert_eq!(of("train.main"), of("0"));
    assert_eq!(of("Optimizer.add_param"), of("1"));
    let missing = place.run(&["debug", "frame", "r.data", "no such frame"]);
    assert_code(&missing, 2);
    assert_says(&missing, &["no frame of this recording is called no such frame"]);
}

/// Help names no command for developers.
#[test]
fn help_is_silent() {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let help = text(&place.run(&["--help"]).stdout);
    let names = |command: &str| help.lines().any(|line| line.trim_start().starts_with(command));
    assert!(names("doctor") && !names("debug"), "{help}");
}
