"""A model of examples/studies/frameworks in TensorFlow, trained by a step that tf.function compiles: tf_model.py SECONDS ncf|transformer_xl."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "../../../examples/studies/frameworks")]
import importlib

import tensorflow_loop
import work
from windows import call, going

work.WORK[sys.argv[2]] = work.WORK[sys.argv[2]]._replace(rows=work.WORK[sys.argv[2]].rows // 2)
module = importlib.import_module(f"tensorflow_models.{sys.argv[2]}")
data = [tensorflow_loop.tensors(batch) for batch in work.batches(sys.argv[2])]
train_step = tensorflow_loop.training(module)

for step in going():
    # The first two are tracing, before the function has a name.
    with call("tf.function(train_step)" if step > 1 else "tf.function.__call__"):
        train_step(data[step % len(data)])
