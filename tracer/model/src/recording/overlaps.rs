//! Which domains hold the energy of which others: a module that of its socket's CPUs and memory and of the GPU soldered to it, a package that of
//! its cores, a GPU whose counter is its module's that of the CPUs and memory beside it.
//!
//! Nothing says which of several modules a GPU is on: both are taken in their order. Leaves out a meter of the whole machine, which holds all.

use super::record::{Domain, DomainClass, GpuMeterKind, Scope, SourceNote};
use super::tables::Recording;
use crate::collections::Order as _;

impl Recording {
    /// The domains whose energy is in that of another as well.
    pub fn held_by(&self, outer: &Domain) -> Vec<&Domain> {
        let is_module = outer.is_module();
        let is_held = |inner: &&Domain| match (outer.class, inner.class) {
            (DomainClass::Psys, DomainClass::Package | DomainClass::Dram) => {
                is_module && self.is_of_socket(inner, outer)
            }
            (DomainClass::Psys, DomainClass::Gpu) => is_module && self.is_soldered_to(inner, outer),
            (DomainClass::Package, DomainClass::Core) => self.is_core_of(inner, outer),
            (DomainClass::Gpu, DomainClass::Package | DomainClass::Dram) => self.is_beside(inner, outer),
            _ => false,
        };
        self.domains.iter().filter(is_held).collect()
    }

    /// What is of no socket is the first module's.
    fn is_of_socket(&self, part: &Domain, module: &Domain) -> bool {
        let is_first = || self.scopes(Domain::is_module).first() == Some(&module.scope);
        part.scope == module.scope || (part.scope == Scope::Machine && is_first())
    }

    fn is_soldered_to(&self, gpu: &Domain, module: &Domain) -> bool {
        let notes = || self.header.sources.iter().flat_map(|source| &source.notes);
        let is_soldered = |gpu: &Domain| {
            notes().any(|note| matches!(note, SourceNote::MayIncludeCpu { domain } if *domain == gpu.name))
        };
        is_nth(gpu.scope, &self.scopes(is_soldered), module.scope, &self.scopes(Domain::is_module))
    }

    fn is_beside(&self, part: &Domain, gpu: &Domain) -> bool {
        let is_part = |domain: &Domain| matches!(domain.class, DomainClass::Package | DomainClass::Dram);
        let meter = |domain: &Domain| self.gpu_facts.meters.get(&domain.id);
        let counts_module =
            |domain: &Domain| meter(domain).is_some_and(|of| of.kind == GpuMeterKind::ModuleCounter);
        is_nth(part.scope, &self.scopes(is_part), gpu.scope, &self.scopes(counts_module))
    }

    fn is_core_of(&self, core: &Domain, package: &Domain) -> bool {
        match (core.scope, package.scope) {
            (Scope::Core(cpu, _), Scope::Socket(of)) => {
                self.header.sockets.get(&cpu).is_none_or(|socket| *socket == of)
            }
            (_, scope) => scope == Scope::Machine,
        }
    }

    /// The scopes of some domains, each once, by number.
    fn scopes(&self, is_one: impl Fn(&Domain) -> bool) -> Vec<Scope> {
        let mut scopes: Vec<Scope> = Vec::new();
        for domain in self.domains.iter().filter(|domain| is_one(domain)) {
            if !scopes.contains(&domain.scope) {
                scopes.push(domain.scope);
            }
        }
        scopes.order_by_key(|scope| match scope {
            Scope::Socket(socket) => socket.get(),
            Scope::Gpu(number) => *number,
            Scope::Machine | Scope::Core(..) => 0,
        });
        scopes
    }
}

/// Whether one of these is at one of those: of four and two, the third is at the second.
fn is_nth(one: Scope, these: &[Scope], other: Scope, those: &[Scope]) -> bool {
    let place = |all: &[Scope], of| all.iter().position(|scope| *scope == of);
    match (place(these, one), place(those, other)) {
        (Some(one), Some(other)) => one * those.len() / these.len() == other,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Domain, DomainClass, GpuMeterKind, Recording, Scope, SourceNote};
    use crate::ids::{CpuId, DomainId, SocketId};
    use crate::recording::record::{GpuMeter, Origin, Quality, Source, SourceId};

    const PACKAGE: DomainClass = DomainClass::Package;
    const MODULE: DomainClass = DomainClass::Psys;

    fn socket(number: u32) -> Scope {
        Scope::Socket(SocketId::new(number))
    }

    /// These domains; CPU 0 is in socket 0, CPU 1 in socket 36; each GPU is on a module.
    fn recording(domains: &[(&str, DomainClass, Scope)], kind: GpuMeterKind) -> Recording {
        let mut recording = Recording::default();
        recording.header.sockets =
            [(0, 0), (1, 36)].map(|(cpu, of)| (CpuId::new(cpu), SocketId::new(of))).into();
        let mut notes = Vec::new();
        for ((name, class, scope), number) in domains.iter().zip(0..) {
            let (id, origin) = (DomainId::new(number), Origin::measured("nvml", String::new(), None));
            let (name, class, scope) = ((*name).to_owned(), *class, *scope);
            if class == DomainClass::Gpu {
                notes.push(SourceNote::MayIncludeCpu { domain: name.clone() });
                let meter =
                    GpuMeter { kind, tick_ns: None, lag_ns: None, window_ns: None, agreement_permille: None };
                recording.gpu_facts.meters.insert(id, meter);
            }
            recording.domains.push(Domain { id, name, class, scope, origin, idle: None });
        }
        let (id, quality) = (SourceId::Nvml, Quality::Measured);
        let source = Source { id, domains: vec![], period_ns: 0, quality, ignored: vec![], notes };
        recording.header.sources.push(source);
        recording
    }

    fn held<'a>(recording: &'a Recording, outer: &str) -> Vec<&'a str> {
        let outer = recording.domains.iter().find(|domain| domain.name == outer).unwrap();
        recording.held_by(outer).iter().map(|domain| domain.name.as_str()).collect()
    }

    /// Two modules of a CPU and two GPUs, and a server's meter; where GPUs count themselves, and where they count their modules.
    #[test]
    fn two_modules() {
        let domains = [
            ("server", MODULE, Scope::Machine),
            ("module-1", MODULE, socket(36)),
            ("module-0", MODULE, socket(0)),
            ("package-0", PACKAGE, socket(0)),
            ("package-1", PACKAGE, socket(36)),
            ("dram-1", DomainClass::Dram, socket(36)),
            ("gpu-0", DomainClass::Gpu, Scope::Gpu(0)),
            ("gpu-1", DomainClass::Gpu, Scope::Gpu(1)),
            ("gpu-2", DomainClass::Gpu, Scope::Gpu(2)),
            ("gpu-3", DomainClass::Gpu, Scope::Gpu(3)),
        ];
        let counted = recording(&domains, GpuMeterKind::Counter);
        assert_eq!(held(&counted, "module-0"), ["package-0", "gpu-0", "gpu-1"]);
        assert_eq!(held(&counted, "module-1"), ["package-1", "dram-1", "gpu-2", "gpu-3"]);
        assert!(held(&counted, "server").is_empty() && held(&counted, "gpu-0").is_empty());
        let by_module = recording(&domains[..8], GpuMeterKind::ModuleCounter);
        assert_eq!(held(&by_module, "gpu-0"), ["package-0"]);
        assert_eq!(held(&by_module, "gpu-1"), ["package-1", "dram-1"]);
    }

    /// On a machine of one socket a package is of no socket, and its cores are all; of two, each has its own.
    #[test]
    fn sockets_and_cores() {
        let core = |cpu| Scope::Core(CpuId::new(cpu), CpuId::new(cpu));
        let cores = [("core-0", DomainClass::Core, core(0)), ("core-1", DomainClass::Core, core(1))];
        let one = [("package-0", PACKAGE, Scope::Machine), ("module-0", MODULE, socket(0))];
        let one = recording(&[&one[..], &cores].concat(), GpuMeterKind::Counter);
        assert_eq!(held(&one, "module-0"), ["package-0"]);
        assert_eq!(held(&one, "package-0"), ["core-0", "core-1"]);
        let two = [("package-0", PACKAGE, socket(0)), ("package-1", PACKAGE, socket(36))];
        let two = recording(&[&two[..], &cores].concat(), GpuMeterKind::Counter);
        assert_eq!(held(&two, "package-0"), ["core-0"]);
        assert_eq!(held(&two, "package-1"), ["core-1"]);
    }
}
