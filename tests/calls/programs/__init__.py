"""The programs, each with its environment and what is typed behind the seconds."""
from typing import NamedTuple


class Program(NamedTuple):
    """A name, the environment of its packages, and its file with arguments."""

    name: str
    environment: str
    command: list


PROGRAMS = [
    Program("torch-ncf", "torch", ["torch_model.py", "ncf"]),
    Program("torch-transformer-xl", "torch", ["torch_model.py", "transformer_xl"]),
    Program("torch-resnet", "torch", ["torch_model.py", "resnet"]),
    Program("torch-cnn", "torch", ["torch_cnn.py"]),
    Program("torch-closure", "torch", ["torch_closure.py"]),
    Program("lightning", "calls", ["lightning_fit.py"]),
    Program("hf-generate", "calls", ["hf_generate.py"]),
    Program("hf-trainer", "calls", ["hf_trainer.py"]),
    Program("tf-ncf", "tensorflow", ["tf_model.py", "ncf"]),
    Program("tf-transformer-xl", "tensorflow", ["tf_model.py", "transformer_xl"]),
    Program("tf-functions", "tensorflow", ["tf_functions.py"]),
    Program("tf-basics", "tensorflow", ["tf_basics.py"]),
    Program("keras-classification", "tensorflow", ["keras_classification.py"]),
    Program("keras-autoencoder", "tensorflow", ["keras_autoencoder.py"]),
    Program("tf1-session", "tensorflow", ["tf1_session.py"]),
    Program("keras-classification-2.12", "tensorflow-2.12", ["keras_classification.py"]),
    Program("tf-functions-2.12", "tensorflow-2.12", ["tf_functions.py"]),
    Program("tf-estimator-2.12", "tensorflow-2.12", ["tf_estimator.py"]),
    Program("sklearn", "calls", ["sklearn_tour.py"]),
    Program("xgboost", "calls", ["xgboost_train.py"]),
    Program("pandas", "calls", ["pandas_tour.py"]),
    Program("numpy-scipy", "calls", ["numpy_scipy.py"]),
    Program("jax", "calls", ["jax_train.py"]),
    Program("onnxruntime", "onnx", ["onnx_infer.py"]),
    Program("mxnet", "mxnet", ["mxnet_train.py"]),
]
