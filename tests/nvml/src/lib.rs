//! A stand-in for `libnvidia-ml.so.1` with scripted energy.
