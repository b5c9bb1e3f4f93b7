//! Built-in functions by the pattern of their symbols: `torch::autograd::THPVariable_cat` is `torch.cat`.
//!
//! PyTorch makes these symbols of its list of operators, one for each function or method of a tensor. The same symbol serves `torch.add` and
//! `Tensor.add`; the function's name stands for both. The short lists below are what the pattern cannot tell, checked with every such
//! symbol of PyTorch 2.15. Leaves out built-in functions of other packages, which have no names of their own.

/// The package whose symbols these are, where the library does not lie in its folder.
pub(super) const TORCH: &str = "torch";

/// Functions of the Python interface; and operators, which are seen alone where a library has no names but those that it exports.
const FUNCTION: &str = "torch::autograd::THPVariable_";
const OPERATOR: &str = "at::_ops::";

/// Operators of one word that are no functions of `torch`.
const NO_FUNCTIONS: [&str; 10] =
    ["alias", "cauchy", "copy", "exponential", "geometric", "lift", "set", "uniform", "zero", "clear"];

/// Methods of tensors that are no functions of `torch`.
const METHODS: [&str; 66] = [
    "as_subclass",
    "byte",
    "ccol_indices",
    "char",
    "coalesce",
    "col_indices",
    "const_data_ptr",
    "contiguous",
    "copy",
    "cpu",
    "crow_indices",
    "cuda",
    "data_ptr",
    "dense_dim",
    "dim",
    "element_size",
    "expand",
    "expand_as",
    "float",
    "double",
    "half",
    "indices",
    "int",
    "is_coalesced",
    "is_contiguous",
    "is_pinned",
    "is_set_to",
    "item",
    "long",
    "map",
    "new",
    "new_empty",
    "new_empty_strided",
    "new_full",
    "new_ones",
    "new_tensor",
    "new_zeros",
    "numpy",
    "pin_memory",
    "record_stream",
    "repeat",
    "requires_grad",
    "reshape_as",
    "retain_grad",
    "row_indices",
    "short",
    "size",
    "sparse_dim",
    "sparse_mask",
    "storage_offset",
    "stride",
    "sum_to_size",
    "to",
    "to_dense",
    "to_mkldnn",
    "to_padded_tensor",
    "to_sparse",
    "to_sparse_bsr",
    "to_sparse_csr",
    "tolist",
    "type",
    "type_as",
    "unfold",
    "values",
    "view",
    "view_as",
];

/// Functions that `torch.nn.functional` has under the same name.
const FUNCTIONAL: [&str; 10] = [
    "avg_pool2d",
    "avg_pool3d",
    "elu_",
    "gelu",
    "leaky_relu_",
    "linear",
    "one_hot",
    "scaled_dot_product_attention",
    "softplus",
    "softshrink",
];

/// Python's own operators.
const OPERATORS: [(&str, &str); 10] = [
    ("bool_scalar", "torch.Tensor.__bool__"),
    ("complex_scalar", "torch.Tensor.__complex__"),
    ("float_scalar", "torch.Tensor.__float__"),
    ("index_scalar", "torch.Tensor.__index__"),
    ("integral_scalar", "torch.Tensor.__int__"),
    ("getitem", "torch.Tensor.__getitem__"),
    ("setitem", "torch.Tensor.__setitem__"),
    ("invert", "torch.Tensor.__invert__"),
    ("length", "torch.Tensor.__len__"),
    ("pynew", "torch.Tensor()"),
];

/// Modules whose functions have their name in front.
const MODULES: [(&str, &str); 3] =
    [("fft_", "torch.fft."), ("linalg_", "torch.linalg."), ("special_", "torch.special.")];

/// Beginnings and whole names of helpers and attributes: nothing that is called.
const HELPERS: [&str; 4] = ["get_", "set_", "is_", "has_"];

/// Ends that tell operators of one function apart.
const OVERLOADS: [&str; 6] = ["_Tensor", "_Scalar", "_dim_IntList", "_dtype", "_memory_format", "_dim"];

/// The public name of a built-in function by its demangled symbol.
pub(super) fn builtin(symbol: &str) -> Option<String> {
    if let Some(rest) = symbol.strip_prefix(FUNCTION) {
        let name = identifier(rest);
        let ends = rest.get(name.len()..).is_some_and(|end| end.is_empty() || end.starts_with('('));
        return ends.then(|| function(name)).flatten();
    }
    let rest = symbol.strip_prefix(OPERATOR)?;
    let name = identifier(rest);
    rest.get(name.len()..)?.starts_with("::call").then(|| operator(name)).flatten()
}

fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

fn function(name: &str) -> Option<String> {
    if let Some((_, public)) = OPERATORS.iter().find(|(operator, _)| *operator == name) {
        return Some((*public).to_owned());
    }
    if let Some(dunder) = name.strip_prefix("__").filter(|rest| rest.ends_with("__")) {
        return Some(format!("torch.Tensor.__{dunder}"));
    }
    let starts_upper = name.starts_with(char::is_uppercase);
    let helper = !METHODS.contains(&name) && HELPERS.iter().any(|helper| name.starts_with(helper));
    if name.is_empty() || name.starts_with('_') || starts_upper || helper {
        return None;
    }
    if FUNCTIONAL.contains(&name) {
        return Some(format!("torch.nn.functional.{name}"));
    }
    if let Some((prefix, module)) = MODULES.iter().find(|(prefix, _)| name.starts_with(prefix)) {
        return name
            .strip_prefix(prefix)
            .filter(|name| !name.starts_with('_'))
            .map(|name| format!("{module}{name}"));
    }
    let of = if METHODS.contains(&name) || name.ends_with('_') { "torch.Tensor" } else { TORCH };
    Some(format!("{of}.{name}"))
}

/// An operator's name has its overload's behind it, which nothing divides from it: only what is sure is named.
fn operator(name: &str) -> Option<String> {
    let bare = OVERLOADS.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    let sure = !bare.trim_end_matches('_').contains('_') && !NO_FUNCTIONS.contains(&bare);
    sure.then(|| function(bare)).flatten()
}
