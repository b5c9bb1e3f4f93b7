//! A training as PyTorch has it, as recordings for tests of reports. Included by `#[path]` beside `recording_builder.rs`.

use super::recording_builder::RecordingBuilder;
use energy_trace_model::profile::UnattributedReason;
use energy_trace_model::profile::{EnergyByClass, Profile};
use energy_trace_model::recording::record::{
    DomainClass, FrameKind, LossReason, Quality, RecordingDiagnostic, SourceNote,
};
use energy_trace_model::units::MicroJoules;

/// A training as PyTorch on Debian has it: forward, backward and step on the main thread, a worker without Python, estimated energy.
pub(crate) fn training() -> RecordingBuilder {
    let mut b = RecordingBuilder::new("python3 examples/torch_train.py 20", 20);
    let process = b.process(100, "python3", Some("3.11.2"));
    let main = b.thread(process, 100, "python3");
    let worker = b.thread(process, 101, "omp worker;1");
    let site = "/usr/lib/python3/dist-packages";
    let libtorch = "/usr/lib/x86_64-linux-gnu/libtorch_cpu.so.1.13";
    let module = b.python("torch_train", "<module>", "examples/torch_train.py", 1);
    let train = b.python("torch_train", "train", "examples/torch_train.py", 20);
    let call = b.python(
        "torch.nn.modules.module",
        "Module._call_impl",
        &format!("{site}/torch/nn/modules/module.py"),
        1188,
    );
    let forward = b.python("torch_train", "Net.forward", "examples/torch_train.py", 9);
    let tensor = b.python("torch._tensor", "Tensor.backward", &format!("{site}/torch/_tensor.py"), 429);
    let backward = b.python("torch.autograd", "backward", &format!("{site}/torch/autograd/__init__.py"), 103);
    let wrapper = "Optimizer._hook_for_profile.<locals>.profile_hook_step.<locals>.wrapper";
    let step = b.python("torch.optim.optimizer", wrapper, &format!("{site}/torch/optim/optimizer.py"), 136);
    let sgd = b.python("torch.optim.sgd", "SGD.step", &format!("{site}/torch/optim/sgd.py"), 120);
    let conv = b.frame(
        FrameKind::Native,
        libtorch,
        "at::native::mkldnn_convolution(at::Tensor const&, at::Tensor const&, c10::ArrayRef<long>)",
    );
    let engine = b.frame(FrameKind::Native, libtorch, "torch::autograd::Engine::execute(std::vector<torch::autograd::Edge, std::allocator<torch::autograd::Edge> > const&)");
    let add = b.frame(FrameKind::Native, libtorch, "at::native::add_kernel(at::TensorIteratorBase&)");
    let nameless = b.frame(FrameKind::Native, "/usr/lib/x86_64-linux-gnu/libgomp.so.1", "");
    let fault = b.frame(FrameKind::Kernel, "", "asm_exc_page_fault");
    let jit = b.frame(FrameKind::Special, "", "[no unwind info]");
    let recursive = b.stack(&[module, train, call, forward, call, conv]);
    let forward_jit = b.stack(&[module, train, call, forward, jit]);
    let back = b.stack(&[module, train, tensor, backward, engine, conv]);
    let back_fault = b.stack(&[module, train, tensor, backward, engine, conv, fault]);
    let update = b.stack(&[module, train, step, sgd, add]);
    let own = b.stack(&[module, train]);
    let spin = b.stack(&[nameless]);
    b.spent(main, Some(recursive), 61_500_000, 6_100, 600);
    b.spent(main, Some(forward_jit), 20_250_000, 2_000, 195);
    b.spent(main, Some(back), 84_123_456, 8_300, 810);
    b.spent(main, Some(back_fault), 1_250_001, 120, 12);
    b.spent(main, Some(update), 12_000_003, 1_200, 119);
    b.spent(main, Some(own), 500_000, 50, 5);
    b.spent(main, None, 310_007, 30, 0);
    b.spent(worker, Some(spin), 101_000_000, 10_050, 990);
    b
}

pub(crate) fn estimated_training() -> Profile {
    let mut b = training();
    b.ledger("package-0", DomainClass::Package, Quality::Estimated, [7_250_000, 120_000_000, 0]);
    b.source("model", &["package-0"], Quality::Estimated, SourceNote::ModelDefaults);
    b.warning(RecordingDiagnostic::MachinePaused { times: 3, cpu_ns: 1_250_000_000 });
    b.lost(LossReason::Samples, 17);
    b.build()
}

/// Counters on two sockets, memory, a GPU that nobody is charged with, and a platform counter above them all.
pub(crate) fn measured_training() -> Profile {
    let mut b = training();
    b.ledger("package-0", DomainClass::Package, Quality::Measured, [7_250_000, 120_000_000, -1_750_000]);
    b.ledger("dram-0", DomainClass::Dram, Quality::Measured, [2_000_000, 31_000_000, 0]);
    b.unattributed_gpu("gpu-0", 812_000_000, UnattributedReason::NoLaunchData);
    b.ledger("psys", DomainClass::Psys, Quality::Measured, [0, 1_400_000_000, 0]);
    b.source("powercap", &["package-0", "dram-0", "psys"], Quality::Measured, SourceNote::FilterOn);
    b.build()
}

/// A loop whose joules are mostly a GPU's: a kernel that no CPU time stands against, below the function that launches it and waits.
pub(crate) fn gpu_training(cpus: bool) -> Profile {
    let mut b = RecordingBuilder::new("python3 train.py", 10);
    let process = b.process(100, "python3", Some("3.11.2"));
    let main = b.thread(process, 100, "python3");
    let train = b.python("train", "train", "train.py", 20);
    let launch = b.frame(FrameKind::Native, "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "cuLaunchKernel");
    let gemm = b.frame(FrameKind::Gpu, "", "gemm");
    let mut spent = |frames: &[_], package_uj: i64, gpu_uj: i64, ms, samples| {
        let mut energy = EnergyByClass::default();
        energy[DomainClass::Package] = MicroJoules::from_uj(if cpus { package_uj } else { 0 });
        energy[DomainClass::Gpu] = MicroJoules::from_uj(gpu_uj);
        let stack = b.stack(frames);
        b.spent_by_class(main, Some(stack), energy, ms, samples);
    };
    spent(&[train], 40_000_000, 0, 4_000, 400);
    spent(&[train, launch], 2_000_000, 0, 200, 20);
    spent(&[train, launch, gemm], 0, 2_792_600_000, 0, 0);
    if cpus {
        b.ledger("package-0", DomainClass::Package, Quality::Measured, [1_000_000, 60_000_000, 0]);
    }
    b.ledger("gpu-0", DomainClass::Gpu, Quality::Measured, [0, 750_000_000, 0]);
    b.source("nvml", &["gpu-0"], Quality::Measured, SourceNote::Driver("580.159.04".to_owned()));
    b.build()
}
