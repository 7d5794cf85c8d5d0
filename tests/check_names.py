#!/usr/bin/env python3
"""Refuses a type or a constant that two headers define at namespace scope: all rooms share one namespace and end in one program, where the
linker keeps one of the two, in silence, whatever the other looks like.

usage: check_names.py SRC_DIR | --self-test
"""
import collections
import pathlib
import re
import sys

COMMENT_OR_STRING = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"')
TOKEN = re.compile(r"namespace\s*(\w*)\s*\{|(?<!<)(?<!, )\b(?:struct|class|enum(?:\s+class)?)\s+(\w+)[^;{}()]*\{"
                   r"|\binline constexpr [\w:<> ]+? (\w+)(?:\[\w*\])? =|[{}]")


def names_in(text):
    """The types and constants that `text` defines in a named namespace, outside any other braces."""
    scopes = []  # of each open brace: a namespace's name ("" if it has none), or None
    found = []
    for match in TOKEN.finditer(COMMENT_OR_STRING.sub("", text)):
        if match.group(0) == "}":
            del scopes[-1:]
            continue
        name = match.group(2) or match.group(3)
        if name and scopes and all(scopes):
            found.append(name)
        if not match.group(3):
            scopes.append(match.group(1))
    return found


def check(src):
    headers_of = collections.defaultdict(list)
    for path in sorted(src.rglob("*.h")):
        for name in names_in(path.read_text(encoding="utf-8")):
            headers_of[name].append(str(path))
    twice = {name: headers for name, headers in headers_of.items() if len(headers) > 1}
    for name, headers in twice.items():
        print(f"{name} is defined in {' and in '.join(headers)}")
    print(f"{len(headers_of)} names, {len(twice)} defined twice")
    return 1 if twice or not headers_of else 0


def self_test():
    text = """
namespace penstock {
class Forward;
template <class T, class U> struct A { struct Inner { int x; }; };  // struct NotCode {
enum class B : uint8_t { kOne };
inline constexpr int64_t kTwo = 2;
inline constexpr Isa kThree[] = {Isa::kOne};
class C final : public A<int> { void f() { struct Local { }; } };
namespace { struct Hidden { }; }
}
struct Outside { };
"""
    assert names_in(text) == ["A", "B", "kTwo", "kThree", "C"], names_in(text)
    print("the check sees what it should")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(self_test() if sys.argv[1] == "--self-test" else check(pathlib.Path(sys.argv[1])))
