#!/bin/bash
# What cargo compiles this workspace with in `cargo xtask test`: clippy's driver, which lints what it compiles, with `-D warnings`. A library is
# linted once, with its unit tests (`--test`): what others are built on is compiled as it is. Unit tests of the packages below are compiled
# without optimisation, in a third of the time: they take a few seconds more then. Packages that use these stay optimised.
# Without `CLIPPY_DRIVER` (`.ci/run`, for xtask itself) nothing is linted.
# In bash, as dash drops variables with a hyphen in their names (`CARGO_BIN_EXE_energy-trace`).
ours=energy_trace
for package in ${ours}_attribution ${ours}_bpf ${ours}_counters ${ours}_cpu_time ${ours}_cupti ${ours}_delegation ${ours}_foreign ${ours}_symbols ${ours}_unwind simgpu; do
    case " $* " in
    *" --crate-name $package "*" --test "*) set -- "$@" -Copt-level=0 ;;
    esac
done
case " $* " in
*" --crate-name test_programs "* | *" --crate-name energy_trace_scenarios "*) ;;
*" --crate-type lib "* | *" --crate-type cdylib "*) exec "$@" -Dwarnings ;;
esac
exec ${CLIPPY_DRIVER:+"$CLIPPY_DRIVER"} "$@"
