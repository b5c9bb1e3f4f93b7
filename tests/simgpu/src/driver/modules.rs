//! Modules and functions: a kernel is found by its name in the scenario, whatever the module's image says. Leaves out linking and globals.

use super::{Code, INVALID_HANDLE, NOT_FOUND, SUCCESS, on_world};
use crate::raw::{Handle, Out, Text, handle, number};
use crate::world::{self, Function};
use std::ffi::{c_char, c_void};
use std::sync::Arc;

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuModuleLoadData(module: Out<Handle>, _image: *const c_void) -> Code {
    on_world(|_| {
        module.put(handle(world::next_number()));
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuModuleLoadDataEx(
    module: Out<Handle>,
    image: *const c_void,
    _count: u32,
    _options: Handle,
    _values: Handle,
) -> Code {
    simgpu_cuModuleLoadData(module, image)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuModuleUnload(_module: Handle) -> Code {
    SUCCESS
}

/// A name has one handle in each process.
#[unsafe(no_mangle)]
extern "C" fn simgpu_cuModuleGetFunction(function: Out<Handle>, _module: Handle, name: Text) -> Code {
    on_world(|world| {
        let name = name.read();
        let Some(kernel) = world.place.scenario.kernels.get(&name) else { return NOT_FOUND };
        let mut tables = world.tables();
        let known = tables.functions.iter().find(|(_, f)| f.name == name).map(|(number, _)| *number);
        let number = known.unwrap_or_else(|| {
            let number = world::next_number();
            tables.functions.insert(number, Arc::new(Function::new(&name, *kernel)));
            number
        });
        function.put(handle(number));
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuLibraryLoadData(
    library: Out<Handle>,
    image: *const c_void,
    _jit: Handle,
    _jit_values: Handle,
    _jit_count: u32,
    _options: Handle,
    _values: Handle,
    _count: u32,
) -> Code {
    simgpu_cuModuleLoadData(library, image)
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuLibraryGetKernel(kernel: Out<Handle>, library: Handle, name: Text) -> Code {
    simgpu_cuModuleGetFunction(kernel, library, name)
}

/// A kernel's function has a handle of its own.
#[unsafe(no_mangle)]
extern "C" fn simgpu_cuKernelGetFunction(function: Out<Handle>, kernel: Handle) -> Code {
    on_world(|world| {
        let mut tables = world.tables();
        let Some(same) = tables.functions.get(&number(kernel)).cloned() else { return INVALID_HANDLE };
        let number = world::next_number();
        tables.functions.insert(number, same);
        function.put(handle(number));
        SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn simgpu_cuFuncGetName(name: Out<*const c_char>, function: Handle) -> Code {
    on_world(|world| match world.tables().functions.get(&number(function)) {
        Some(function) => {
            // Functions are never dropped, so the name stays.
            name.put(function.c_name.as_ptr());
            SUCCESS
        }
        None => INVALID_HANDLE,
    })
}
