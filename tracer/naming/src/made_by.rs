//! What code that was made at run time is called where nothing gives it a name: after the library that calls it, as `[jit: libfoo.so]`, and
//! oneDNN's kernels after the primitive that they are part of, as `[oneDNN: convolution, forward]`.
//!
//! Both are told from the names of its callers. Leaves out names that a program writes down itself (`jit.rs`).

use super::FrameNames;
use super::jit::nameless;
use energy_trace_model::ids::FrameId;
use energy_trace_model::recording::record::Frame;
use std::collections::HashMap;
use std::path::Path;

/// How the names of the C library's files begin: its functions call whom others tell them to, and start threads.
const C_LIBRARY: [&str; 5] = ["libc.so", "libc.musl", "libpthread", "ld-linux", "ld-musl"];

/// oneDNN's namespace for what carries primitives out (oneDNN 3.13, `src/common`, `src/cpu`).
const ONEDNN: &str = "dnnl::impl::";
/// Its primitives: a part of their classes' names, and what they are called here. The first that fits holds.
const PRIMITIVES: [(&str, &str); 24] = [
    ("deconvolution", "deconvolution"),
    ("convolution", "convolution"),
    ("inner_product", "inner product"),
    ("sdpa", "attention"),
    ("matmul", "matrix product"),
    ("gemm", "matrix product"),
    ("batch_normalization", "batch normalization"),
    ("bnorm", "batch normalization"),
    ("group_normalization", "group normalization"),
    ("layer_normalization", "layer normalization"),
    ("lrn", "local response normalization"),
    ("pool", "pooling"),
    ("softmax", "softmax"),
    ("rnn", "recurrent layer"),
    ("lstm", "recurrent layer"),
    ("gru", "recurrent layer"),
    ("eltwise", "element-wise function"),
    ("prelu", "element-wise function"),
    ("binary", "element-wise function"),
    ("reorder", "reorder"),
    ("reduction", "reduction"),
    ("resampling", "resampling"),
    ("concat", "concatenation"),
    ("shuffle", "shuffle"),
];
/// The directions of training, likewise.
const DIRECTIONS: [(&str, &str); 5] = [
    ("_fwd", "forward"),
    ("_bwd_w", "backward by weights"),
    ("_bwd_d", "backward by data"),
    ("_bwd_s", "backward by data"),
    ("_bwd", "backward"),
];

/// The native frames of a recording with their names.
pub struct Callers<'a>(HashMap<FrameId, (&'a str, &'a str)>);

impl<'a> Callers<'a> {
    /// Of these frames, which have got these names.
    pub fn new(frames: &'a [(FrameId, Frame)], names: &'a [FrameNames]) -> Self {
        let modules: HashMap<FrameId, &str> =
            frames.iter().map(|(id, frame)| (*id, frame.module.as_str())).collect();
        let named =
            names.iter().filter_map(|n| Some((n.frame, (*modules.get(&n.frame)?, n.name.name.as_str()))));
        Self(named.collect())
    }

    /// What code is called that these frames call, the nearest first; `None` where they are of no library. Where the nearest was guessed
    /// (`are_sure`), it may be left of an earlier call, into any library: then oneDNN's alone count.
    pub fn made_by(&self, callers: &[FrameId], are_sure: bool) -> Option<String> {
        let callers = || callers.iter().filter_map(|caller| self.0.get(caller));
        let primitive = callers().rev().find_map(|(_, name)| primitive(name));
        primitive.map(|what| format!("[oneDNN: {what}]")).or_else(|| {
            if !are_sure {
                return None;
            }
            let file = |module: &str| Path::new(module).file_name().unwrap_or_default().to_owned();
            let mut files = callers().map(|(module, _)| file(module)).filter(|file| !file.is_empty());
            let is_c_library = |file: &str| C_LIBRARY.iter().any(|begin| file.starts_with(begin));
            let library = files.find(|file| !is_c_library(&file.to_string_lossy()))?;
            Some(nameless(Path::new(&library)))
        })
    }
}

/// The primitive of oneDNN that a function is part of, by the classes in its name.
fn primitive(function: &str) -> Option<String> {
    if !function.contains(ONEDNN) {
        return None;
    }
    let classes = function.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    classes.filter(|class| class.ends_with("_t")).find_map(|class| {
        let of = |table: &[(&str, &'static str)]| {
            table.iter().find(|(part, _)| class.contains(part)).map(|&(_, says)| says)
        };
        let what = of(&PRIMITIVES)?;
        Some(of(&DIRECTIONS).map_or_else(|| what.to_owned(), |direction| format!("{what}, {direction}")))
    })
}

#[cfg(test)]
mod tests {
    use super::{Callers, primitive};
    use crate::FrameNames;
    use energy_trace_model::ids::FrameId;
    use energy_trace_model::recording::record::{Frame, FrameKind, Name};

    /// What code is called that functions call, the nearest first, each by its library and name.
    fn made_by(callers: &[(&str, &str)]) -> Option<String> {
        made_by_if(callers, true)
    }

    fn made_by_if(callers: &[(&str, &str)], are_sure: bool) -> Option<String> {
        let ids = || (0..).map(FrameId::new);
        let name = |name: &str| Name { name: name.into(), file: String::new(), line: 0 };
        let frame =
            |module: &str| Frame { kind: FrameKind::Native, module: module.into(), ..Frame::special("") };
        let frames: Vec<_> = ids().zip(callers.iter().map(|(module, _)| frame(module))).collect();
        let named = |(frame, (_, function)): (FrameId, &(&str, &str))| FrameNames {
            frame,
            name: name(function),
            inlined: Vec::new(),
        };
        let names: Vec<_> = ids().zip(callers).map(named).collect();
        let all: Vec<FrameId> = ids().take(callers.len() + 1).collect();
        Callers::new(&frames, &names).made_by(&all, are_sure)
    }

    /// Code is called after the library of its nearest caller, but for the C library; frames that are none of a library's say nothing.
    #[test]
    fn code_is_its_callers() {
        let (libc, torch) =
            (("/lib/libc.so.6", "start_thread"), ("/site/torch/lib/libtorch_cpu.so", "at::conv"));
        assert_eq!(made_by(&[torch, libc]).as_deref(), Some("[jit: libtorch_cpu.so]"));
        assert_eq!(
            made_by(&[libc, torch, ("/bin/python3", "main")]).as_deref(),
            Some("[jit: libtorch_cpu.so]")
        );
        assert_eq!(made_by(&[libc]), None);
        assert_eq!(made_by(&[]), None);
    }

    /// A caller that was guessed is no reason to call code after its library (qemu's was glib's, which looks things up while qemu translates),
    /// but where it is oneDNN's.
    #[test]
    fn guessed_callers() {
        assert_eq!(made_by_if(&[("/lib/libglib-2.0.so.0", "g_hash_table_insert")], false), None);
        let kernel = "dnnl::impl::cpu::x64::jit_uni_reorder_t::omp_driver_1d(int, char const*)";
        let named = made_by_if(&[("/site/torch/lib/libtorch_cpu.so", kernel)], false);
        assert_eq!(named.as_deref(), Some("[oneDNN: reorder]"));
    }

    /// A kernel of oneDNN is a part of the outermost primitive.
    #[test]
    fn kernels_are_a_primitives() {
        let kernel = "dnnl::impl::cpu::x64::jit_uni_reorder_t::omp_driver_1d(int, char const*)";
        let convolution = "dnnl::impl::cpu::x64::brgemm_convolution_bwd_weights_t::execute(dnnl::impl::exec_ctx_t const&) const";
        let library = "/site/torch/lib/libtorch_cpu.so";
        assert_eq!(made_by(&[(library, kernel)]).as_deref(), Some("[oneDNN: reorder]"));
        assert_eq!(
            made_by(&[(library, kernel), (library, convolution), ("/lib/libc.so.6", "start_thread")])
                .as_deref(),
            Some("[oneDNN: convolution, backward by weights]")
        );
    }

    /// The primitive is told by the class of the function, with its template arguments or within a wrapper; functions of others, and oneDNN's
    /// that are of no primitive, tell none.
    #[test]
    fn primitives_by_class() {
        let of = |function: &str| primitive(function);
        for (function, says) in [
            (
                "std::_Function_handler<void (int, int), dnnl::impl::cpu::x64::jit_avx2_convolution_fwd_t::execute_forward(dnnl::impl::exec_ctx_t const&) const::{lambda(int, int)#1}>::_M_invoke",
                "convolution, forward",
            ),
            (
                "dnnl::impl::cpu::x64::matmul::brgemm_matmul_t<(dnnl::impl::cpu::x64::cpu_isa_t)22>::execute_body",
                "matrix product",
            ),
            (
                "dnnl::impl::cpu::x64::jit_uni_pooling_bwd_t<(cpu_isa_t)3, (data_type_t)3>::execute_backward",
                "pooling, backward",
            ),
            (
                "dnnl::impl::cpu::x64::jit_uni_eltwise_fwd_t<(cpu_isa_t)3>::execute",
                "element-wise function, forward",
            ),
        ] {
            assert_eq!(of(function).as_deref(), Some(says), "{function}");
        }
        for other in [
            "mine::convolution_fwd_t::run",
            "dnnl::impl::parallel(int, std::function<void (int, int)> const&)",
            "",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
