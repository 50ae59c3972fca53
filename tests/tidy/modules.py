"""Modules: src/modules.txt says what each may include. CMake links the libraries by the same lines."""

import posixpath
import re

from tree import cpp_code, line_of

DATA = "src/modules.txt"
TABLE = "src/README.md"
ROW = re.compile(r"^\| `([a-z_/]+)/` \| (.*) \| ([^|]*) \|$", re.M)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)[">]', re.M)
# The C++ library has names without a dot. The rest is C and Linux, which every module but core may use.
SYSTEM = re.compile(r"[a-z_0-9]+|(?:sys|linux|net|netinet|arpa)/[a-z_]+\.h|(?:dlfcn|fcntl|grp|limits|netdb|poll|"
                    r"pthread|pwd|sched|signal|spawn|stdlib|string|syslog|termios|time|unistd|wchar)\.h")

# core decides: it has no clock, no chance, no threads and no I/O of its own.
IMPURE = re.compile(
    r"<(?:thread|mutex|fstream|filesystem|iostream|random|future|condition_variable|stop_token|csignal|ctime)>"
    r"|<[a-z_/]+\.h>|::now\(|std::rand\b|random_device|getenv|std::cout|std::cerr|fopen|\bsystem\(")
SPEAKS_BEFORE_IT_STOPS = "src/core/invariant.cc"


class Module:
    def __init__(self, line, modules, libraries):
        self.line = line
        self.modules = modules
        self.libraries = libraries


def parse(tree, findings):
    found = {}
    for number, line in enumerate(tree.text(DATA).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"([a-z_/]+):([a-z_/ ]*)\|([A-Za-z0-9_./ -]*)", line)
        if not match:
            findings.append((DATA, number, "not `module: modules | headers`; the head of the file explains it"))
            continue
        found[match[1]] = Module(number, match[2].split(), match[3].split())
    return found


def check_cycles(modules):
    """One finding a cycle, at the module where it was entered."""
    state, findings = {}, []

    def visit(name, path):
        if state.get(name) == "open":
            cycle = " -> ".join([*path[path.index(name):], name])
            findings.append((DATA, modules[name].line, f"cycle {cycle}; remove one of the dependencies"))
        if name in state or name not in modules:
            return
        state[name] = "open"
        for other in modules[name].modules:
            visit(other, [*path, name])
        state[name] = "done"

    for name in modules:
        visit(name, [])
    return findings


def generated(tree, header):
    """Whether CMake writes this header into the build folder."""
    return any(f"generated/{header}" in tree.text(path) for path in tree.of_kind("cmake"))


def check_include(tree, modules, name, path, line, quote, header, used):
    if quote == "<":
        if not SYSTEM.fullmatch(header):
            prefix = next((prefix for prefix in modules[name].libraries if header.startswith(prefix)), None)
            if prefix is None:
                yield path, line, f"{name} may not include <{header}>; go without, or add its library in {DATA}"
            used.add((name, prefix))
        return
    if "/" not in header:
        if not generated(tree, header):
            yield path, line, f'"{header}" has no module; write "module/{header}"'
        return
    other = posixpath.dirname(header)
    if other not in modules:
        yield path, line, f'"{header}" is in no module of {DATA}; write "module/file.h"'
    elif other != name and other not in modules[name].modules:
        yield path, line, f"{name} may not include {other}; go without, or add the dependency in {DATA}"
    used.add((name, other))


def check_sources(tree, modules):
    findings, used = [], set()
    for path in tree.of_kind("cpp"):
        text = tree.text(path)
        includes = [(line_of(text, match.start()), match[1], match[2]) for match in INCLUDE.finditer(text)]
        findings += [(path, line, f'"{header}" climbs; write "module/file.h"')
                     for line, _, header in includes if ".." in header.split("/")]
        if not path.startswith("src/"):
            continue
        name = posixpath.dirname(path).removeprefix("src/")
        if name not in modules:
            findings.append((path, 1, f"{posixpath.dirname(path)} is not in {DATA}; add a line for it"))
            continue
        for line, quote, header in includes:
            if ".." not in header.split("/"):
                findings += check_include(tree, modules, name, path, line, quote, header, used)
        if name == "core" and path != SPEAKS_BEFORE_IT_STOPS:
            code = cpp_code(text)
            findings += [(path, line_of(code, match.start()),
                          f"core is pure and may not use `{match.group()}`; pass in what it would bring")
                         for match in IMPURE.finditer(code)]
    for name, module in modules.items():
        if not any(path.startswith(f"src/{name}/") for path in tree.paths):
            findings.append((DATA, module.line, f"src/{name} does not exist; remove the line"))
            continue
        for other in module.modules:
            if other not in modules:
                findings.append((DATA, module.line, f"{other} is not a module; remove it"))
        findings += [(DATA, module.line, f"{name} does not include {other}; remove it")
                     for other in [*module.modules, *module.libraries] if (name, other) not in used]
    return findings


def cell(module):
    return ", ".join([*module.modules, *(f"`{library}`" for library in module.libraries)]) or "nothing"


def check_table(tree, modules):
    if TABLE not in tree.modes:
        return []
    text, findings = tree.text(TABLE), []
    rows = {match[1]: match for match in ROW.finditer(text)}
    for name, match in rows.items():
        if name not in modules:
            findings.append((TABLE, line_of(text, match.start()), f"{name} is not in {DATA}; remove the row"))
        elif match[3] != cell(modules[name]):
            findings.append((TABLE, line_of(text, match.start()),
                             f"the dependencies of {name} differ from {DATA}; run tests/tidy/tidy --fix"))
    findings += [(TABLE, 1, f"no row for {name}; add it to the table") for name in modules if name not in rows]
    return findings


def check(tree):
    if DATA not in tree.modes:
        return [(DATA, 1, "is missing; it says what each module may include")] if "src/README.md" in tree.modes else []
    findings = []
    modules = parse(tree, findings)
    return findings + check_cycles(modules) + check_sources(tree, modules) + check_table(tree, modules)


def fix(tree):
    if DATA not in tree.modes or TABLE not in tree.modes:
        return
    modules = parse(tree, [])
    before = tree.text(TABLE)

    def new_row(row):
        return f"| `{row[1]}/` | {row[2]} | {cell(modules[row[1]])} |" if row[1] in modules else row[0]

    after = ROW.sub(new_row, before)
    if after != before:
        (tree.root / TABLE).write_text(after)
