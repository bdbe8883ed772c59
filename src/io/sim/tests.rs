//! The simulation as a whole: what a node in it may rely on, and what it must not.
