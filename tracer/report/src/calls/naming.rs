//! The name under which users know what a frame does: `keras.Model.fit` for `TensorFlowTrainer.fit`.
//!
//! From the package's own re-exports, which the recording holds (`Profile::public_names`); from the overrides of `api_names.rs` first. What is
//! neither has its real name, as long as it looks like something that users call. Leaves out which frame of a stack is a call (`path.rs`).

use super::builtins::builtin;
use super::extensions::{cython_name, numpy_name};
use energy_trace_model::recording::PublicNames;
use energy_trace_model::recording::record::{CalledOn, Frame, FrameKind};
use energy_trace_names::api_names::ApiNames;

/// A name, and whether users know it: a real name is only where a function lies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CallName {
    pub(super) name: String,
    pub(super) is_public: bool,
}

/// What made the name of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallRule {
    /// The table of overrides.
    Override,
    /// The same, as a method of the class that it was called on.
    OverrideOfClass,
    /// The public name of the class that it was called on.
    ClassOfReceiver,
    /// A package's re-export of the function, or of its class.
    ReExport,
    /// The module that defines it, where nothing in the name is private.
    OwnModule,
    /// A symbol of PyTorch's machine code.
    TorchSymbol,
    /// A symbol of NumPy's machine code.
    NumpySymbol,
    /// A symbol that Cython made of a Python function.
    CythonSymbol,
}

impl CallRule {
    /// Whether users know such a name: others only say where a function lies.
    pub(crate) const fn is_public(self) -> bool {
        !matches!(self, Self::OwnModule | Self::CythonSymbol)
    }
}

/// The public name of a function that was called on something; `None` for wrappers, private functions and code without names.
pub(super) fn call_name(frame: &Frame, on: Option<&CalledOn>, names: &PublicNames) -> Option<CallName> {
    let (name, rule) = name_and_rule(frame, on, names)?;
    Some(CallName { name, is_public: rule.is_public() })
}

/// The same, and what made it.
pub(crate) fn name_and_rule(
    frame: &Frame,
    on: Option<&CalledOn>,
    names: &PublicNames,
) -> Option<(String, CallRule)> {
    let by = |rule| move |name| (name, rule);
    if let Some(api) = ApiNames::built_in().name_of(frame) {
        let own = on.filter(|_| api.of_class).and_then(|on| method_of(on, frame, api.name, names));
        let own = own.map(by(CallRule::OverrideOfClass));
        return Some(own.unwrap_or_else(|| by(CallRule::Override)(api.name.to_owned())));
    }
    if ApiNames::built_in().is_wrapper(frame) {
        return None;
    }
    match frame.kind {
        FrameKind::Python => {
            let of_class = on.and_then(|on| method_of(on, frame, &qualname(frame), names));
            let public = || python_name(frame, names).map(by(CallRule::ReExport));
            let real = || real_name(frame).map(by(CallRule::OwnModule));
            of_class.map(by(CallRule::ClassOfReceiver)).or_else(public).or_else(real)
        }
        FrameKind::Native => {
            let numpy = || numpy_name(frame, names).map(by(CallRule::NumpySymbol));
            let compiled = || cython_name(frame, names).map(by(CallRule::CythonSymbol));
            builtin(&frame.name).map(by(CallRule::TorchSymbol)).or_else(numpy).or_else(compiled)
        }
        _ => None,
    }
}

/// The name of a method as one of the class that it was called on, where that is a public one of the same package.
fn method_of(on: &CalledOn, frame: &Frame, function: &str, names: &PublicNames) -> Option<String> {
    let CalledOn::Class { module, name } = on else { return None };
    let (_, method) = function.rsplit_once('.').filter(|(_, method)| !is_private(method))?;
    let package = |module: &str| module.split('.').next().map(str::to_owned);
    let public = names.get(module, name).filter(|_| package(module) == package(&frame.module))?;
    Some(join(&ApiNames::built_in().shortened(public), method))
}

/// The function of the program that a package runs in its own way, after the name of that way: `tf.function(train_step)`.
pub(super) fn function_name(way: &str, on: &CalledOn) -> Option<String> {
    let CalledOn::Function(name) = on else { return None };
    Some(format!("{}({name})", way.trim_end_matches(".__call__")))
}

/// The name of a function that is public by its package's re-exports; unlike `call_name` none that it only has in its own module.
pub(crate) fn exported_name(frame: &Frame, names: &PublicNames) -> Option<String> {
    if frame.kind != FrameKind::Python || frame.name.contains('<') {
        return None;
    }
    let head = frame.name.split(['.', '?']).next().unwrap_or_default();
    names.get(&frame.module, head)?;
    python_name(frame, names)
}

/// The name by a package's re-exports.
fn python_name(frame: &Frame, names: &PublicNames) -> Option<String> {
    let qualname = qualname(frame);
    let (head, rest) = qualname.split_once('.').unwrap_or((&qualname, ""));
    let public = ApiNames::built_in().shortened(names.get(&frame.module, head)?);
    if qualname.contains('<') {
        return (rest.starts_with("<locals>.") && is_made_for_users(&public)).then_some(public);
    }
    (!rest.split('.').any(is_private)).then(|| join(&public, rest))
}

/// The name in its own module, where nothing in it is private.
fn real_name(frame: &Frame) -> Option<String> {
    let qualname = qualname(frame);
    let (head, rest) = qualname.split_once('.').unwrap_or((&qualname, ""));
    let private = head.starts_with('_') || qualname.contains('<') || rest.split('.').any(is_private);
    (!private && !frame.module.is_empty()).then(|| join(&format!("{}.{head}", frame.module), rest))
}

/// The qualified name. Before 3.11 the class may be that of the object: `Class?.method`.
fn qualname(frame: &Frame) -> String {
    frame.name.replace("?.", ".")
}

/// Whether a function that returns functions gives its name to them: `jax.grad`, but no decorator of a package's insides.
fn is_made_for_users(public: &str) -> bool {
    !public.contains("experimental") && !public.contains("._") && public.matches('.').count() == 1
}

fn join(of: &str, rest: &str) -> String {
    match rest {
        "" => of.to_owned(),
        "__init__" | "__new__" => format!("{of}()"),
        rest => format!("{of}.{rest}"),
    }
}

fn is_private(part: &str) -> bool {
    part.starts_with('_') && !is_dunder(part)
}

fn is_dunder(part: &str) -> bool {
    part.len() > 4 && part.starts_with("__") && part.ends_with("__")
}

#[cfg(test)]
mod tests {
    use super::{call_name, exported_name, function_name};
    use energy_trace_model::recording::PublicNames;
    use energy_trace_model::recording::record::{CalledOn, Frame, FrameKind, PublicName};

    fn names() -> PublicNames {
        let name = |module: &str, name: &str, public: &str| PublicName {
            module: module.into(),
            name: name.into(),
            public: public.into(),
        };
        [
            name("keras.src.backend.tensorflow.trainer", "TensorFlowTrainer", "keras.Model"),
            name("tensorflow.python.ops.math_ops", "matmul", "tensorflow.linalg.matmul"),
            name("jax._src.api", "value_and_grad", "jax.value_and_grad"),
            name("torch.optim.adam", "Adam", "torch.optim.Adam"),
            name("torch.nn.modules.conv", "Conv2d", "torch.nn.Conv2d"),
            name(
                "sklearn.ensemble._forest",
                "RandomForestClassifier",
                "sklearn.ensemble.RandomForestClassifier",
            ),
        ]
        .into_iter()
        .collect()
    }

    fn frame(kind: FrameKind, module: &str, name: &str) -> Frame {
        let (name, module) = (name.to_owned(), module.to_owned());
        Frame { kind, name, module, file: "/x.py".into(), line: 3, first_line: 2, address: 0 }
    }

    fn name(module: &str, name: &str) -> Option<String> {
        call_name(&frame(FrameKind::Python, module, name), None, &names()).map(|found| found.name)
    }

    /// Methods have the public name of their class, functions their own, constructors that of their class with brackets.
    #[test]
    fn public_names() {
        let is = |module, qualname, public: &str| assert_eq!(name(module, qualname).as_deref(), Some(public));
        is("keras.src.backend.tensorflow.trainer", "TensorFlowTrainer.fit", "keras.Model.fit");
        is("tensorflow.python.ops.math_ops", "matmul", "tf.linalg.matmul");
        is("torch.optim.adam", "Adam.__init__", "torch.optim.Adam()");
        is("jax._src.api", "value_and_grad.<locals>.value_and_grad_f", "jax.value_and_grad");
    }

    /// What is not exported has its real name; before 3.11 with the class of the object.
    #[test]
    fn real_names() {
        assert_eq!(
            name("pandas.core.frame", "DataFrame.sum").as_deref(),
            Some("pandas.core.frame.DataFrame.sum")
        );
        assert_eq!(name("a.b", "C?.f").as_deref(), Some("a.b.C.f"));
        assert_eq!(exported_name(&frame(FrameKind::Python, "a.b", "C.f"), &names()), None);
    }

    /// A method has the name of the public class that it was called on: inherited, or by a private function that stands for it. Classes of
    /// other packages and of the program, and private ones, change nothing.
    #[test]
    fn methods_of_the_objects_class() {
        let on = |module: &str, name: &str| CalledOn::Class { module: module.into(), name: name.into() };
        let named = |module, name, file: &str, on: &CalledOn| {
            let frame = Frame { file: file.into(), ..frame(FrameKind::Python, module, name) };
            call_name(&frame, Some(on), &names()).map(|found| found.name).unwrap()
        };
        let fit = |class: &CalledOn| named("sklearn.ensemble._forest", "BaseForest.fit", "/x.py", class);
        let forest = on("sklearn.ensemble._forest", "RandomForestClassifier");
        assert_eq!(fit(&forest), "sklearn.ensemble.RandomForestClassifier.fit");
        for other in [on("sklearn.ensemble._forest", "_Private"), on("torch.nn.modules.conv", "Conv2d")] {
            assert_eq!(fit(&other), "sklearn.ensemble._forest.BaseForest.fit");
        }
        let file = "/v/site-packages/torch/nn/modules/module.py";
        let call = |class: &CalledOn| named("torch.nn.modules.module", "Module._call_impl", file, class);
        assert_eq!(call(&on("torch.nn.modules.conv", "Conv2d")), "torch.nn.Conv2d.__call__");
        assert_eq!(call(&on("train", "Net")), "torch.nn.Module.__call__");
        let made = on("torch.optim.adam", "Adam");
        assert_eq!(
            named("torch.optim.optimizer", "Optimizer.__init__", "/x.py", &made),
            "torch.optim.Adam()"
        );
        let step = CalledOn::Function("train_step".into());
        assert_eq!(function_name("tf.function.__call__", &step).as_deref(), Some("tf.function(train_step)"));
    }

    /// Wrappers, private functions and hooks of modules are no calls.
    #[test]
    fn passed_over() {
        for private in [
            "_run",
            "Trainer._run",
            "_Trainer.run",
            "__getattr__",
            "<module>",
            "f.<locals>.wrapper",
            "<lambda>",
        ] {
            assert_eq!(name("a.b", private), None, "{private}");
        }
        let mut no_grad = frame(FrameKind::Python, "torch.utils._contextlib", "no_grad");
        assert!(call_name(&no_grad, None, &names()).is_some());
        no_grad.file = "/v/site-packages/torch/utils/_contextlib.py".into();
        assert_eq!(
            call_name(&no_grad, None, &names()),
            None,
            "a decorator, whose code is called after its context"
        );
    }

    /// Built-in functions of PyTorch are told by the pattern of their symbols, functions from methods.
    #[test]
    fn builtins() {
        let native = |name| {
            call_name(&frame(FrameKind::Native, "/l.so", name), None, &names()).map(|found| found.name)
        };
        let is = |symbol, public: &str| assert_eq!(native(symbol).as_deref(), Some(public), "{symbol}");
        is("torch::autograd::THPVariable_cat(_object*, _object*, _object*)", "torch.cat");
        is("torch::autograd::THPVariable_add_(_object*, _object*)", "torch.Tensor.add_");
        is("torch::autograd::THPVariable_item(_object*)", "torch.Tensor.item");
        is("torch::autograd::THPVariable_bool_scalar(_object*, _object*)", "torch.Tensor.__bool__");
        is("torch::autograd::THPVariable_linear(_object*)", "torch.nn.functional.linear");
        is("torch::autograd::THPVariable_fft_rfft(_object*)", "torch.fft.rfft");
        is("at::_ops::matmul::call(at::Tensor const&, at::Tensor const&)", "torch.matmul");
        is("at::_ops::add_Tensor::call(at::Tensor const&)", "torch.add");
        assert_eq!(native("at::_ops::_softmax::call(at::Tensor const&)"), None);
        assert_eq!(native("at::_ops::native_layer_norm::call(at::Tensor const&)"), None);
    }
}
