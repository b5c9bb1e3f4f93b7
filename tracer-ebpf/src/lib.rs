//! What the BPF side and user space share: wire types, and the stack walkers generic over memory.
#![no_std]
