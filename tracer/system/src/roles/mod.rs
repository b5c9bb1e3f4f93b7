//! The processes of a recording, and what each may do.
//!
//! ```text
//!  recorder   root or capabilities   loads BPF, opens events, counters and the files of targets      parses nothing that others write
//!  resolver   a user of its own      parses files that targets or others can write                   opens nothing, writes nothing
//!  finisher   the invoking user      makes the output files, attributes, draws, prints               has no privileges to lose
//! ```
//!
//! Resolver and finisher are forked while the recorder has one thread, before anything of a target was seen; they give up what they do not
//! need for good (`renounce.rs`) and speak with the recorder over a socket (`channel.rs`): typed messages and open files, no paths. Each
//! dies with the recorder. A resolver that is lost is replaced by a new process of the same program, as threads cannot be forked.
//! Leaves out what they do: `resolver/`, `finisher/`.

pub mod channel;
pub mod child;
pub mod own_user;
pub mod renounce;
pub mod room;
