//! The four libraries as programs see them: names, and first instructions of one's choice, in front of the engine.
//!
//! A face is made of assembler by `cc`: each function starts with the chosen instructions and jumps to the engine's, with all arguments in
//! place. What a probe at its entry sees is what it would see in NVIDIA's library. x86-64 only. Leaves out versions of symbols.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Error, Result};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// How the functions of a face begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prologue {
    /// `endbr64`, `push %rbp`, as compiled with `-fcf-protection`.
    EndbrPush,
    /// `push %rbp`.
    Push,
    /// `endbr64`, `sub $8, %rsp`: no instruction that a kernel emulates.
    EndbrSub,
    /// `sub $8, %rsp`: the same without.
    Sub,
    /// A jump at once, as in a function that only passes on.
    Jump,
}

impl Prologue {
    fn code(self) -> &'static str {
        const PUSH: &str = "    pushq %rbp\n    .cfi_def_cfa_offset 16\n    .cfi_offset 6, -16\n    movq %rsp, %rbp\n    popq %rbp\n    .cfi_def_cfa_offset 8\n    .cfi_restore 6\n";
        const SUB: &str =
            "    subq $8, %rsp\n    .cfi_def_cfa_offset 16\n    addq $8, %rsp\n    .cfi_def_cfa_offset 8\n";
        match self {
            Self::EndbrPush | Self::Push => PUSH,
            Self::EndbrSub | Self::Sub => SUB,
            Self::Jump => "",
        }
    }
}

/// A library: its file's name, and its functions.
pub struct Face {
    /// The file's name, which is its soname too.
    pub file: &'static str,
    functions: &'static str,
}

/// All of them.
pub const FACES: [Face; 4] = [
    Face {
        file: "libcuda.so.1",
        functions: "cuInit cuDriverGetVersion cuDeviceGetCount cuDeviceGet cuDeviceGetName cuDeviceGetUuid cuDeviceGetUuid_v2
            cuDeviceGetPCIBusId cuDeviceGetAttribute cuDeviceTotalMem_v2 cuCtxCreate_v2 cuCtxCreate_v3 cuDevicePrimaryCtxRetain
            cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxSetFlags_v2 cuCtxSetCurrent cuCtxGetCurrent cuCtxGetDevice cuCtxDestroy_v2
            cuCtxSynchronize cuModuleLoadData cuModuleLoadDataEx cuModuleUnload cuModuleGetFunction cuLibraryLoadData
            cuLibraryGetKernel cuKernelGetFunction cuFuncGetName cuMemAlloc_v2
            cuMemFree_v2 cuMemHostAlloc cuMemFreeHost cuLaunchKernel cuLaunchKernel_ptsz cuLaunchKernelEx cuLaunchKernelEx_ptsz
            cuLaunchCooperativeKernel cuLaunchCooperativeKernel_ptsz cuMemcpyHtoDAsync_v2 cuMemcpyDtoHAsync_v2 cuMemcpyDtoDAsync_v2
            cuMemcpyAsync cuMemcpyHtoD_v2 cuMemcpyDtoH_v2 cuMemcpy cuMemsetD8Async cuMemsetD32Async cuMemsetD8_v2 cuStreamCreate
            cuStreamCreateWithPriority cuStreamDestroy_v2 cuStreamSynchronize cuStreamSynchronize_ptsz cuStreamQuery cuStreamWaitEvent
            cuEventCreate cuEventDestroy_v2 cuEventRecord cuEventSynchronize cuEventQuery cuEventElapsedTime cuStreamBeginCapture_v2
            cuStreamEndCapture cuStreamIsCapturing cuGraphInstantiateWithFlags cuGraphInstantiate_v2 cuGraphInstantiateWithParams
            cuGraphLaunch cuGraphLaunch_ptsz cuGraphDestroy cuGraphExecDestroy cuGraphGetNodes cuGraphExecGetId cuGraphCreate
            cuGraphAddKernelNode cuGraphAddKernelNode_v2 cuGraphAddMemcpyNode cuGraphAddMemsetNode cuGraphAddNode cuGraphAddNode_v2
            cuGraphAddChildGraphNode cuGraphClone cuGraphExecKernelNodeSetParams cuGraphExecKernelNodeSetParams_v2 cuGraphExecUpdate
            cuGraphExecUpdate_v2 cuGetProcAddress
            cuGetProcAddress_v2 cuGetErrorName cuGetErrorString",
    },
    Face {
        file: "libcudart.so.12",
        functions: "cudaRuntimeGetVersion cudaDriverGetVersion cudaGetDeviceCount cudaSetDevice cudaGetDevice cudaDeviceSynchronize
            cudaDeviceReset cudaMalloc cudaFree cudaMallocHost cudaFreeHost cudaGetLastError cudaPeekAtLastError cudaGetErrorString
            cudaGetErrorName __cudaRegisterFatBinary __cudaRegisterFatBinaryEnd __cudaUnregisterFatBinary __cudaRegisterFunction
            cudaLaunchKernel cudaLaunchKernel_ptsz cudaLaunchCooperativeKernel cudaLaunchCooperativeKernel_ptsz cudaLaunchKernelExC
            cudaLaunchKernelExC_ptsz __cudaPushCallConfiguration __cudaPopCallConfiguration cudaStreamCreate cudaStreamCreateWithFlags
            cudaStreamCreateWithPriority cudaStreamDestroy cudaStreamSynchronize cudaStreamSynchronize_ptsz cudaStreamQuery
            cudaStreamWaitEvent cudaEventCreate cudaEventCreateWithFlags cudaEventDestroy cudaEventRecord cudaEventSynchronize
            cudaEventQuery cudaEventElapsedTime cudaMemcpyAsync cudaMemcpy cudaMemsetAsync cudaMemset cudaStreamBeginCapture
            cudaStreamEndCapture cudaStreamIsCapturing cudaGraphInstantiate cudaGraphInstantiateWithFlags cudaGraphLaunch
            cudaGraphLaunch_ptsz cudaGraphDestroy cudaGraphExecDestroy cudaGraphCreate cudaGraphAddKernelNode
            cudaGraphAddMemcpyNode1D cudaGraphAddMemsetNode cudaGraphAddChildGraphNode cudaGraphClone cudaGraphGetNodes
            cudaGraphExecKernelNodeSetParams cudaGraphExecUpdate",
    },
    Face {
        file: "libnvidia-ml.so.1",
        functions: "nvmlInit_v2 nvmlInitWithFlags nvmlShutdown nvmlErrorString nvmlSystemGetDriverVersion
            nvmlSystemGetCudaDriverVersion nvmlSystemGetCudaDriverVersion_v2 nvmlDeviceGetCount_v2 nvmlDeviceGetHandleByIndex_v2
            nvmlDeviceGetHandleByUUID nvmlDeviceGetName nvmlDeviceGetUUID nvmlDeviceGetIndex nvmlDeviceGetPciInfo_v3
            nvmlDeviceGetMigMode nvmlDeviceGetVirtualizationMode nvmlDeviceGetTotalEnergyConsumption nvmlDeviceGetPowerUsage
            nvmlDeviceGetEnforcedPowerLimit
            nvmlDeviceGetFieldValues nvmlDeviceGetSamples nvmlDeviceGetProcessUtilization nvmlDeviceGetUtilizationRates nvmlDeviceGetComputeRunningProcesses_v3
            nvmlDeviceGetTemperature nvmlDeviceGetTemperatureThreshold nvmlDeviceGetClockInfo
            nvmlDeviceGetCurrentClocksThrottleReasons",
    },
    Face {
        file: "libcupti.so.13",
        functions: "cuptiGetVersion cuptiGetTimestamp cuptiGetResultString cuptiSubscribe cuptiSubscribe_v2 cuptiUnsubscribe cuptiEnableCallback
            cuptiEnableDomain cuptiActivityRegisterCallbacks cuptiActivityRegisterTimestampCallback cuptiActivityEnable
            cuptiActivityDisable cuptiActivityFlushAll cuptiActivityFlushPeriod cuptiActivityGetNextRecord
            cuptiActivityGetNumDroppedRecords cuptiActivitySetAttribute cuptiSetThreadIdType cuptiGetGraphNodeId
            cuptiActivityRegisterCallbacks_v2 cuptiActivityEnable_v2 cuptiActivityDisable_v2 cuptiActivityGetNextRecord_v2
            cuptiActivityGetNumDroppedRecords_v2 cuptiActivitySetAttribute_v2 cuptiGetTimestamp_v2",
    },
];

/// Where cargo put the engine for a test or a program that it built: beside it, or in `deps` beside it.
pub fn engine() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let folders = program.ancestors().skip(1).take(2).flat_map(|f| [f.to_owned(), f.join("deps")]);
    folders.map(|folder| folder.join("libsimgpu.so")).find(|file| file.exists())
}

/// Makes all libraries in a folder, with a copy of the engine, ready for `LD_LIBRARY_PATH`. `libX.so` links lie beside them for linkers.
///
/// # Errors
/// When a file cannot be written or `cc` fails, with what it said.
pub fn build(folder: &Path, engine: &Path, prologue: Prologue) -> Result<()> {
    build_without(folder, engine, prologue, &[])
}

/// The same without some functions, as in libraries that are older than these are.
///
/// # Errors
/// As `build`.
pub fn build_without(folder: &Path, engine: &Path, prologue: Prologue, missing: &[&str]) -> Result<()> {
    fs::create_dir_all(folder)?;
    let copy = folder.join("libsimgpu.so");
    // A new file, not the old one written over: a process may have the old one mapped.
    let _ = fs::remove_file(&copy);
    fs::copy(engine, &copy)?;
    for face in &FACES {
        build_face(folder, face, prologue, missing)?;
    }
    Ok(())
}

fn build_face(folder: &Path, face: &Face, prologue: Prologue, missing: &[&str]) -> Result<()> {
    let source = folder.join(format!("{}.s", face.file));
    fs::write(&source, assembler(face, prologue, missing))?;
    let library = folder.join(face.file);
    let _ = fs::remove_file(&library);
    let soname = format!("-Wl,-soname,{}", face.file);
    // By its name and not by its path, which would stand in what is made.
    let engine = [&format!("-L{}", folder.display()), "-l:libsimgpu.so"];
    let words = ["-shared", "-nostdlib", "-Wl,-z,defs,-z,now", "-Wl,-rpath,$ORIGIN", &soname];
    cc(&source, &library, folder, &[words.as_slice(), &engine].concat())?;
    if let Some(plain) = face.file.split_once(".so.").map(|(name, _)| folder.join(format!("{name}.so"))) {
        let _ = fs::remove_file(&plain);
        std::os::unix::fs::symlink(face.file, plain)?;
    }
    Ok(())
}

fn assembler(face: &Face, prologue: Prologue, missing: &[&str]) -> String {
    let mut text = String::from("    .text\n    .section .note.GNU-stack,\"\",@progbits\n    .text\n");
    let endbr = matches!(prologue, Prologue::EndbrPush | Prologue::EndbrSub);
    for name in face.functions.split_whitespace().filter(|name| !missing.contains(name)) {
        let first = if endbr { "    endbr64\n" } else { "" };
        let code = prologue.code();
        let _ = write!(
            text,
            "    .globl {name}\n    .type {name}, @function\n    .p2align 4\n{name}:\n    .cfi_startproc\n{first}{code}    jmp *simgpu_{name}@GOTPCREL(%rip)\n    .cfi_endproc\n    .size {name}, .-{name}\n"
        );
    }
    text
}

/// Builds a workload of `tests/workloads` with `cc`: a C file, more arguments, and the libraries of a folder that it links.
///
/// # Errors
/// When `cc` fails, with what it said.
pub fn compile(source: &Path, program: &Path, faces: &Path, arguments: &[&str]) -> Result<()> {
    let folder = faces.display();
    // The engine is found by the faces' own path; linkers ask for it as well.
    let (libraries, engine) = (format!("-L{folder}"), format!("-Wl,-rpath-link,{folder}"));
    let words = ["-g", "-O1", "-fno-optimize-sibling-calls", &libraries, &engine];
    cc(source, program, faces, &[&words, arguments].concat())
}

/// What `cc` has made for this process, by what it was made of: dozens of tests want the same, each in a folder of its own.
static MADE: Mutex<BTreeMap<String, File>> = Mutex::new(BTreeMap::new());

/// Makes a program or library of a source. In which `folder` its libraries lie makes no difference to what comes out.
fn cc(source: &Path, made: &Path, folder: &Path, arguments: &[&str]) -> Result<()> {
    let words = arguments.join("\n").replace(&*folder.to_string_lossy(), "");
    let of = format!("{words}\n{}", fs::read_to_string(source)?);
    let known = || MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let file = known().get(&of).map(|file| format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
    if let Some(file) = file {
        // By another process: a child that is forked meanwhile would hold it open for writing, and then it cannot be run.
        return succeed(Command::new("cp").arg(file).arg(made));
    }
    succeed(Command::new("cc").arg("-o").arg(made).arg(source).args(arguments))?;
    // A copy without a name: what is made may be stripped in place.
    let kept = made.with_extension("kept");
    fs::copy(made, &kept)?;
    // What another test has made meanwhile stays open: a third one may be copying it.
    known().entry(of).or_insert(File::open(&kept)?);
    fs::remove_file(&kept)
}

fn succeed(command: &mut Command) -> Result<()> {
    let output = command.output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Error::other(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))),
    }
}
