

# Has PyTorch's `record_function` mark ranges: the end of the `sitecustomize` where `record --ranges` put it, behind `next_sitecustomize.py` and
# the Python package's `_torch.py`.
try:
    mark_record_functions(__file__.rpartition("/")[0] + "/libenergy_trace_cupti.so")
finally:
    _next_one()
