"""As much of PyTorch as `record_function` needs: for tests of what is put around it. On the `PYTHONPATH` of those alone."""

import sys
import types

# What PyTorch compiles: which profiler a thread is in.
_C = types.ModuleType("torch._C")
_C._autograd = types.SimpleNamespace(_profiler_type=lambda: _C.profiler)
_C.profiler = "NONE"
sys.modules["torch._C"] = _C

from torch.autograd import profiler  # noqa: E402, F401
