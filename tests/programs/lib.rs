//! The package of the three test programs (`../offline`, `../live`, `../gpu`).
//!
//! Holds nothing: cargo wants a library or a program in each package.
