"""Functions that nothing calls and files that nothing mentions.

A function is known by its name alone: it counts as called when its name occurs anywhere but in a declaration or a
definition. So two functions of one name hide each other, which is the price of seconds instead of minutes.
"""

import ast
import collections
import posixpath
import re

from tree import DATA, cpp_code, line_of

ALLOWED = "tests/tidy/unused_allowed.txt"

KEYWORDS = frozenset(
    "alignas alignof asm assert case catch co_await co_return co_yield decltype defined delete do else explicit for if "
    "new noexcept not operator requires return sizeof static_assert switch throw typeid while".split())
# Called by the language or a library, not by a name that stands somewhere.
CALLED_BY_OTHERS = re.compile(
    r"main|begin|end|await_\w+|get_return_object|initial_suspend|final_suspend|return_void|return_value|"
    r"unhandled_exception|tag_invoke|on_\w+_impl")
TOKEN = re.compile(r"[A-Za-z_]\w*|::|->|==|\S")
SCOPE = re.compile(r"\b(?:namespace|class|struct|union|enum)\b")
WORD = re.compile(r"[A-Za-z_]\w*")
# In a formatted .cc file, what begins in the first column and has a parenthesis is a declaration or a definition.
DEFINITION = re.compile(r"^(?![ #}/)])[^=;(\n]*?\b([a-z_]\w*)\(", re.M)
OVERRIDE = re.compile(r"\b([a-z_]\w*)\([^;{}]*\)[^;{}()]*\boverride\b")


def header_declarations(code):
    """Names of functions declared in classes and namespaces, with offsets. Bodies are skipped."""
    found, depth_of_body, parentheses = [], 0, 0
    statement, names, scopes, initialized = [], [], [], False
    for match in TOKEN.finditer(re.sub(r"^[ \t]*#.*(?:\\\n.*)*", "", code, flags=re.M)):
        token = match.group()
        if depth_of_body:
            depth_of_body += (token == "{") - (token == "}")
            if not depth_of_body and not initialized:
                statement = []
            continue
        if token == "(":
            name = statement[-1] if statement else ""
            before = statement[-2] if len(statement) > 1 else ""
            declares = (parentheses == 0 and not initialized and re.fullmatch(r"[a-z_]\w*", name)
                        and name not in KEYWORDS and (before in (">", "&", "*", "]") or WORD.fullmatch(before))
                        and before not in ("return", "operator", "explicit"))
            if declares:
                names.append(name)
                found.append(name)
            parentheses += 1
        elif token == ")":
            parentheses -= 1
        elif parentheses == 0 and token == "=" and "operator" not in statement:
            initialized = True
        elif parentheses == 0 and token == "{":
            if SCOPE.search(" ".join(statement)) and not names and not initialized:
                scopes.append(token)
                statement = []
                continue
            depth_of_body = 1
            continue
        elif parentheses == 0 and token in (";", "}"):
            statement, names, initialized = [], [], False
            continue
        elif parentheses == 0 and token == ":" and statement and statement[-1] in ("public", "private", "protected"):
            statement, names, initialized = [], [], False
            continue
        if names and token == "{":
            continue
        statement.append(token)
    return found


def count_cpp(tree):
    """Declarations by path, and how often each name is used in the program and in tests."""
    declared, uses = collections.defaultdict(set), {"program": collections.Counter(), "tests": collections.Counter()}
    for path in tree.of_kind("cpp"):
        code = cpp_code(tree.text(path))
        words = collections.Counter(WORD.findall(code))
        if path.endswith(".h") or path.endswith(".h.in"):
            names = header_declarations(code)
            if path.startswith("src/"):
                for name in names:
                    declared[name].add(path)
        else:
            names = DEFINITION.findall(code) + OVERRIDE.findall(code)
        words.subtract(collections.Counter(names))
        uses["tests" if path.startswith("tests/") else "program"].update(
            {word: count for word, count in words.items() if count > 0})
    return declared, uses


def read_allowed(tree):
    if ALLOWED not in tree.modes:
        return {}
    found = {}
    for number, line in enumerate(tree.text(ALLOWED).splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            name, _, reason = line.partition(": ")
            found[name] = (number, reason.strip())
    return found


def check_cpp(tree, allowed):
    declared, uses = count_cpp(tree)
    for name, paths in declared.items():
        if CALLED_BY_OTHERS.fullmatch(name) or uses["program"][name] > 0:
            continue
        path = min(paths)
        match = re.search(rf"\b{name}\s*\(", tree.text(path))
        line = line_of(tree.text(path), match.start()) if match else 1
        if uses["tests"][name] > 0:
            if name not in allowed:
                yield path, line, f"only tests call {name}; remove it, or give the reason in {ALLOWED}"
        else:
            yield path, line, f"nothing calls {name}; remove it"
    for name, (line, reason) in allowed.items():
        if not reason:
            yield ALLOWED, line, f"{name} has no reason; write `name: reason`"
        if name not in declared or uses["program"][name] > 0 or uses["tests"][name] == 0:
            yield ALLOWED, line, f"{name} is not a function that only tests call; remove the line"


# Called by unittest, http.server and other parts of the standard library, by name.
PYTHON_HOOKS = re.compile(
    r"__\w+__|test\w*|setUp\w*|tearDown\w*|do_[A-Z]+|log_\w+|handle\w*|visit_\w+|load_tests|address_string|"
    r"finish_request|process_request|verify_request|server_bind|version_string|end_headers|redirect_request|"
    r"handle_error|addSuccess|addError|addFailure|addSkip|stopTest|startTest|run|default|write|flush|main")

# Methods of such a file are found by a name that is put together.
COMPUTED_NAME = re.compile(r"getattr\(self, (?![\"'][\w]+[\"']\s*[,)])")


def check_python(tree):
    words = collections.Counter()
    for path in tree.texts():
        if tree.kind(path) in ("python", "shell", "cmake", "markdown", "javascript", "toml", "other"):
            words.update(WORD.findall(tree.text(path)))
    for path in tree.of_kind("python"):
        try:
            module = ast.parse(tree.text(path))
        except SyntaxError as error:
            yield path, error.lineno or 1, "Python cannot read this file; fix its syntax"
            continue
        if COMPUTED_NAME.search(tree.text(path)):
            continue
        for node in ast.walk(module):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and words[node.name] == 1:
                if not PYTHON_HOOKS.fullmatch(node.name):
                    yield path, node.lineno, f"nothing calls {node.name}; remove it"


def check_files(tree):
    """A header that nothing includes; a source, script or module that no other file mentions."""
    mentions = collections.Counter()
    for path in tree.texts():
        mentions.update(set(re.findall(r"[\w.-]+", tree.text(path))) | set(WORD.findall(tree.text(path))))
    includes = collections.Counter()
    for path in tree.of_kind("cpp"):
        includes.update(posixpath.basename(header) for header in re.findall(r'#include "([^"]+)"', tree.text(path)))
    lists = "\n".join(tree.text(path) for path in tree.of_kind("cmake"))
    for path in tree.paths:
        name = posixpath.basename(path)
        stem = name.rsplit(".", 1)[0]
        if DATA.match(path):
            continue
        if name.endswith(".h"):
            if not includes[name]:
                yield path, 1, f"nothing includes {name}; remove it"
        elif name.endswith(".cc"):
            folder = posixpath.basename(posixpath.dirname(path))
            beside = posixpath.join(posixpath.dirname(path), "CMakeLists.txt")
            globbed = path.startswith("src/") or re.search(rf"pawl_\w+\({folder}\b|\b{folder}/\*\.cc", lists) or (
                beside in tree.paths and re.search(r"GLOB .*\s\*\.cc", tree.text(beside)))
            listed = name in lists or re.search(rf"\b{stem}\b", lists)
            if not globbed and not listed:
                yield path, 1, f"no CMakeLists.txt compiles {name}; add it, or remove it"
        elif tree.kind(path) in ("python", "shell", "javascript") and "/" in path and not path.startswith("examples/"):
            word = stem.removeprefix("test_") if path.startswith("tests/") else stem
            own = set(re.findall(r"[\w.-]+", tree.text(path) or "")) | set(WORD.findall(tree.text(path) or ""))
            if not any(mentions[known] - (known in own) > 0 for known in {word, stem, name}) \
                    and not name.startswith("__"):
                yield path, 1, f"nothing mentions {name}; use it, or remove it"


def check(tree):
    allowed = read_allowed(tree)
    return [*check_cpp(tree, allowed), *check_python(tree), *check_files(tree)]
