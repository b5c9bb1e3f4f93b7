"""The programs of the table: how each is compiled and run, and what it needs."""

import glob
import os
from dataclasses import dataclass, field


@dataclass
class Program:
    """`{seconds}` is how long to run, `{dir}` a folder of its own with all `work.*`."""

    name: str
    package: str
    run: list
    build: list = field(default_factory=list)

    @property
    def tools(self):
        """The commands without which it cannot be compiled or run."""
        first = [line.split()[0] for line in self.build] + self.run[:1]
        return [tool for tool in first if "{" not in tool]


def compiled(name, package, line):
    """A program that a compiler makes."""
    return Program(name, package, ["{dir}/work", "{seconds}"], [line])


def script(name, package, line):
    """A program that an interpreter runs."""
    return Program(name, package, line.split())


def python(version):
    """That CPython: pyenv's, else the one of this name."""
    of_pyenv = sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}.*/bin/python")))
    return (of_pyenv or [f"python{version}"])[0]


BARE = "-fno-asynchronous-unwind-tables -fno-unwind-tables"
PYTHONS = ["2.7", "3.6", "3.7", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13"]
JAVA = ["javac -d {dir} {dir}/Work.java"]

PROGRAMS = [
    compiled("C", "gcc", "gcc -O2 -o work work.c"),
    compiled("C, frame pointers and no tables", "gcc", f"gcc -O2 -fno-omit-frame-pointer {BARE} -o work work.c"),
    compiled("C, neither", "gcc", f"gcc -O1 -fomit-frame-pointer {BARE} -o work work.c"),
    compiled("C, static", "gcc", "gcc -O2 -static -o work work.c"),
    compiled("C, static-pie, LTO", "gcc", "gcc -O2 -flto -static-pie -o work work.c"),
    compiled("C, address sanitizer", "gcc", "gcc -O1 -fsanitize=address -o work work.c"),
    compiled("C, 32 bits", "gcc-multilib", "gcc -m32 -O2 -o work work.c"),
    compiled("C, musl", "musl-tools", "musl-gcc -O2 -o work work.c"),
    compiled("C, musl, static", "musl-tools", "musl-gcc -O2 -static -o work work.c"),
    compiled("C++", "g++", "g++ -O2 -o work work.cpp"),
    compiled("Rust", "rustc", "rustc -O --edition 2021 -o work work.rs"),
    compiled("Rust, panic=abort, no tables", "rustc", "rustc -O --edition 2021 -C panic=abort -C force-unwind-tables=no -o work work.rs"),
    compiled("Go", "golang-go", "go build -o work work.go"),
    compiled("Fortran", "gfortran", "gfortran -O2 -o work work.f90"),
    compiled("Ada", "gnat", "gnatmake -q -O2 work.adb -o work"),
    compiled("Pascal", "fpc", "fpc -O2 -v0 -owork work.pas"),
    compiled("D", "ldc", "ldc2 -O2 -of=work work.d"),
    compiled("Nim", "nim", "nim c -d:release --hints:off --nimcache:{dir}/cache -o:work work.nim"),
    compiled("Crystal", "crystal", "crystal build --release -o work work.cr"),
    compiled("Haskell", "ghc", "ghc -O1 -o work work.hs"),
    compiled("OCaml", "ocaml-nox", "ocamlopt -o work work.ml"),
    Program("OCaml, bytecode", "ocaml-nox", ["ocamlrun", "{dir}/work", "{seconds}"], ["ocamlc -o work work.ml"]),
    Program("Java", "default-jdk", ["java", "-cp", "{dir}", "Work", "{seconds}"], JAVA),
    Program("Java, PreserveFramePointer", "default-jdk", ["java", "-XX:+PreserveFramePointer", "-cp", "{dir}", "Work", "{seconds}"], JAVA),
    Program("Java, interpreted", "default-jdk", ["java", "-Xint", "-cp", "{dir}", "Work", "{seconds}"], JAVA),
    script("Node", "nodejs", "node {dir}/work.js {seconds}"),
    script("Node, perf-basic-prof", "nodejs", "node --perf-basic-prof --interpreted-frames-native-stack {dir}/work.js {seconds}"),
    script("Node, jitless", "nodejs", "node --jitless {dir}/work.js {seconds}"),
    Program("Mono", "mono-mcs", ["mono", "{dir}/work.exe", "{seconds}"], ["mcs -out:work.exe work.cs"]),
    script("Ruby", "ruby", "ruby {dir}/work.rb {seconds}"),
    script("Ruby, MJIT", "ruby", "ruby --mjit {dir}/work.rb {seconds}"),
    script("PHP", "php-cli", "php {dir}/work.php {seconds}"),
    script("PHP, JIT", "php-cli", "php -d opcache.enable_cli=1 -d opcache.jit=1255 -d opcache.jit_buffer_size=64M {dir}/work.php {seconds}"),
    script("Perl", "perl", "perl {dir}/work.pl {seconds}"),
    script("Lua", "lua5.4", "lua5.4 {dir}/work.lua {seconds}"),
    script("LuaJIT", "luajit", "luajit {dir}/work.lua {seconds}"),
    script("LuaJIT, no JIT", "luajit", "luajit -joff {dir}/work.lua {seconds}"),
    script("Tcl", "tcl", "tclsh {dir}/work.tcl {seconds}"),
    script("Python 3 (system)", "python3", "/usr/bin/python3 {dir}/work.py {seconds}"),
    *[script(f"Python {version}", "pyenv, or uv", f"{python(version)} {{dir}}/work.py {{seconds}}") for version in PYTHONS],
    script("PyPy 3.9", "pypy3", "pypy3 {dir}/work.py {seconds}"),
    Program("Guile", "guile-3.0", ["guile", "--no-auto-compile", "-c",
            "(load \"{dir}/work.scm\") (define (sorted l) (sort l <)) (define u internal-time-units-per-second)"
            " (display (run get-internal-run-time (+ (get-internal-run-time) (* u {seconds})) 0))"]),
    Program("Chez Scheme", "chezscheme", ["scheme", "--script", "{dir}/run.ss"],
            ["""echo '(load "{dir}/work.scm") (define (sorted l) (sort < l)) (display (run cpu-time (+ (cpu-time) (* 1000 {seconds})) 0))' > run.ss"""]),
    script("Common Lisp (SBCL)", "sbcl", "sbcl --script {dir}/work.lisp {seconds}"),
    Program("Erlang", "erlang-base", ["erl", "-noshell", "-pa", "{dir}", "-s", "work", "main", "{seconds}"], ["erlc work.erl"]),
    script("R", "r-base-core", "Rscript {dir}/work.R {seconds}"),
    script("Octave", "octave", "octave-cli --no-gui {dir}/work.m {seconds}"),
    script("Prolog (SWI)", "swi-prolog", "swipl -q {dir}/work.plg {seconds}"),
    script("awk (gawk)", "gawk", "gawk -v seconds={seconds} -f {dir}/work.awk"),
    script("bash", "bash", "bash {dir}/work.sh {seconds}"),
    Program("SQLite", "sqlite3", ["sqlite3", ":memory:", "with recursive c(x) as (select 1 union all select x + 1 from c where x < 2500000)"
            " select count(distinct x * 7919 % 10007), sum(length(printf('%d,', x))) from c"]),
    Program("OpenSSL", "openssl", ["openssl", "speed", "-seconds", "1", "sha256", "rsa2048"]),
    Program("xz", "xz-utils", ["sh", "-c", "xz -9 -c {dir}/blob > /dev/null"], ["head -c 8000000 /dev/urandom | base64 > blob"]),
    Program("x264", "x264", ["x264", "--quiet", "--threads", "2", "--demuxer", "raw", "--input-res", "640x360", "--fps", "25", "-o", "/dev/null", "{dir}/v.yuv"],
            ["head -c 41472000 /dev/urandom > v.yuv"]),
    Program("numpy, matrix product", "python3-numpy", ["/usr/bin/python3", "-c",
            "import numpy, time\na = numpy.random.rand(800, 800)\ne = time.time() + {seconds}\nwhile time.time() < e: a @ a"]),
    Program("git", "git", ["sh", "-c", "git -C {source} log --stat -n 400 > /dev/null"]),
]
