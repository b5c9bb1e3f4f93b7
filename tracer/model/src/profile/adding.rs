//! The profiles of several machines as one: rows stand behind each other, domains too, and every number stays what it was.
//!
//! Leaves out making each of them, with one clock and the same bins (`energy-trace-attribution`).

use super::diagnostics::Diagnostic;
use super::over_time::OverTime;
use super::run::Run;
use super::tables::{Profile, ProfileRow};
use crate::ids::{CpuId, FrameId, ProcessKey, StackId, ThreadKey};
use crate::recording::joining::both_ends;
use crate::recording::record::{CallCount, Header, Process, Source, StackNode, Thread};

impl Profile {
    /// Gives every domain the name of its machine.
    pub fn name_domains(&mut self, machine: &str) {
        let name = |domain: &mut String| *domain = format!("{machine}/{domain}");
        self.ledger.iter_mut().for_each(|row| name(&mut row.domain));
        self.run.gpus.iter_mut().for_each(|gpu| name(&mut gpu.domain));
        self.run.header.sources.iter_mut().flat_map(|source| &mut source.domains).for_each(name);
        for found in &mut self.diagnostics {
            if let Diagnostic::Domain { domain, .. } = found {
                name(domain);
            }
        }
    }

    /// Adds another machine's profile behind this one, made with the same options and clock.
    pub fn add(&mut self, other: Self) {
        let behind = Behind::of(self);
        let first_row = self.rows.len();
        self.run.add(other.run);
        self.processes.extend(other.processes.into_iter().map(|process| behind.process(process)));
        self.threads.extend(other.threads.into_iter().map(|thread| behind.thread(thread)));
        self.frames.extend(other.frames);
        self.stacks.extend(other.stacks.into_iter().map(|node| behind.node(node)));
        self.build_ids.extend(other.build_ids);
        self.public_names.join(other.public_names);
        let groups = other.control_groups.into_iter();
        self.control_groups.extend(groups.map(|(key, group)| (behind.process_key(key), group)));
        let frame = |count: CallCount| CallCount { frame: behind.frame(count.frame), ..count };
        self.calls.extend(other.calls.into_iter().map(frame));
        self.ledger.extend(other.ledger);
        self.rows.extend(other.rows.into_iter().map(|row| behind.row(row)));
        self.certainty.domains.extend(other.certainty.domains.into_iter().map(|mut domain| {
            domain.first_row += first_row;
            domain
        }));
        self.parts.extend(other.parts.into_iter().map(|mut part| {
            part.processes.start += behind.processes;
            part.processes.end += behind.processes;
            part
        }));
        self.diagnostics.extend(other.diagnostics);
    }
}

impl OverTime {
    /// Adds another machine's, with the same bins.
    pub fn add(&mut self, other: Self) {
        let first = self.entries.len();
        self.domains.extend(other.domains);
        self.others_ns.iter_mut().zip(other.others_ns).for_each(|(sum, ns)| *sum = sum.saturating_add(ns));
        self.entries.extend(other.entries);
        // The last one is where the entries end.
        self.firsts.pop();
        self.firsts.extend(other.firsts.into_iter().map(|at| at + first));
    }
}

impl Run {
    fn add(&mut self, other: Self) {
        self.header.add(other.header);
        if self.host != other.host {
            self.host = None;
        }
        self.summary = both_ends(self.summary.take(), other.summary);
        (self.start, self.end) = (self.start.min(other.start), self.end.max(other.end));
        self.samples = self.samples.saturating_add(other.samples);
        for (status, count) in other.stack_statuses {
            *self.stack_statuses.entry(status).or_default() += count;
        }
        self.python_whole = self.python_whole.saturating_add(other.python_whole);
        self.other_ns = self.other_ns.saturating_add(other.other_ns);
        self.launch_stacks += other.launch_stacks;
        self.gpus.extend(other.gpus);
    }
}

impl Header {
    fn add(&mut self, other: Self) {
        if self.command != other.command {
            self.command = Vec::new();
        }
        for (all, one) in [(&mut self.kernel, other.kernel), (&mut self.cpu_model, other.cpu_model)] {
            if !all.split(" / ").any(|known| known == one) {
                *all = format!("{all} / {one}");
            }
        }
        // Each machine counts its CPUs from 0.
        let first = self.sockets.keys().next_back().map_or(0, |cpu| cpu.get().saturating_add(1));
        let cpu = |cpu: CpuId| CpuId::new(cpu.get().saturating_add(first));
        self.sockets.extend(other.sockets.into_iter().map(|(number, socket)| (cpu(number), socket)));
        // Fewer samples are expected of all than of the one that took more.
        self.sample_hz = self.sample_hz.min(other.sample_hz);
        self.system_wide |= other.system_wide;
        other.sources.into_iter().for_each(|source| self.add_source(source));
    }
}

impl Header {
    /// Sources that say the same of other domains are said once.
    fn add_source(&mut self, source: Source) {
        let same = |known: &Source| Source { domains: source.domains.clone(), ..known.clone() } == source;
        match self.sources.iter_mut().find(|known| same(known)) {
            Some(known) => known.domains.extend(source.domains),
            None => self.sources.push(source),
        }
    }
}

/// What each kind of number is behind.
struct Behind {
    processes: u32,
    threads: u32,
    frames: u32,
    stacks: u32,
}

impl Behind {
    fn of(profile: &Profile) -> Self {
        let number = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        Self {
            processes: number(profile.processes.len()),
            threads: number(profile.threads.len()),
            frames: number(profile.frames.len()),
            stacks: number(profile.stacks.len()),
        }
    }

    const fn process_key(&self, key: ProcessKey) -> ProcessKey {
        ProcessKey::new(key.get().saturating_add(self.processes))
    }

    const fn thread_key(&self, key: ThreadKey) -> ThreadKey {
        ThreadKey::new(key.get().saturating_add(self.threads))
    }

    const fn frame(&self, frame: FrameId) -> FrameId {
        FrameId::new(frame.get().saturating_add(self.frames))
    }

    const fn stack(&self, stack: StackId) -> StackId {
        StackId::new(stack.get().saturating_add(self.stacks))
    }

    fn process(&self, process: Process) -> Process {
        let parent = process.parent.map(|parent| self.process_key(parent));
        Process { key: self.process_key(process.key), parent, ..process }
    }

    fn thread(&self, thread: Thread) -> Thread {
        Thread { key: self.thread_key(thread.key), process: self.process_key(thread.process), ..thread }
    }

    fn node(&self, node: StackNode) -> StackNode {
        StackNode { parent: node.parent.map(|parent| self.stack(parent)), frame: self.frame(node.frame) }
    }

    fn row(&self, row: ProfileRow) -> ProfileRow {
        ProfileRow {
            thread: self.thread_key(row.thread),
            stack: row.stack.map(|stack| self.stack(stack)),
            on_behalf_of: row.on_behalf_of.map(|thread| self.thread_key(thread)),
            ..row
        }
    }
}
