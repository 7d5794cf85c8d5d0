"""Writes src/text/jinja/special_case.inc: the characters whose upper, lower or title case is longer than one character.

    python3 scripts/make_special_case.py > src/text/jinja/special_case.inc

The simple mappings come from utf8proc; only these few need a table. Python's str methods are what templates see, so they
are the source.
"""
import sys


def main():
    print("// Made by scripts/make_special_case.py: character, its upper case, its title case.")
    for code in range(sys.maxunicode + 1):
        c = chr(code)
        if 0xD800 <= code <= 0xDFFF or (len(c.upper()) == 1 and len(c.title()) == 1):
            continue
        upper, title = (", ".join(f"0x{ord(x):x}" for x in s) for s in (c.upper(), c.title()))
        print(f"{{0x{code:x}, {{{upper}}}, {{{title}}}}},")


main()
