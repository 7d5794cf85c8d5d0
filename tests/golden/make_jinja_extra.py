"""Small templates that cover the breadth of Jinja, and what jinja2 renders, configured as make_templates.py says.

    python make_jinja_extra.py OUT.json

Needs jinja2 3.1.6, transformers 5.24 and what transformers.utils imports. The file has the form of templates.json.
"""
import argparse
import json
import pathlib

import make_templates as base

base.TEMPLATES.clear()
base.CASES.clear()
ROWS = [{"n": "b", "v": 2, "ok": True, "in": {"x": 1}}, {"n": "A", "v": 1, "ok": False, "in": {}}, {"n": "c", "v": 2, "ok": True}]


def each(group, texts, **inputs):
    """One case for each line of `texts`."""
    for i, text in enumerate(filter(None, texts.split("\n"))):
        base.snippet(f"{group} {i}", text, **inputs)


# ---------------------------------------------------------------------------------------------------------- operators

each("arithmetic", r"""
{{ 2**3**2 }} {{ -2**2 }} {{ 2**-1 }} {{ (-8)**3 }} {{ 2**0.5 }} {{ 0**0 }}
{{ 7//2 }} {{ -7//2 }} {{ 7//-2 }} {{ 7%-3 }} {{ -7%3 }} {{ 7.5//2 }} {{ -7.5%2 }} {{ 7.5%-2 }} {{ 0.0//3 }}
{{ 1/3 }} {{ 4/2 }} {{ 1e308*10 }} {{ -1e308*10 }} {{ 1e308*10-1e308*10 }} {{ 3-5 }} {{ 1.5+1 }} {{ True+True }}
{{ 5 + 3 * 2 ~ 1 }}
{{ 1 ~ 2 + 3 }}
{{ 'a' + 3 * 2 ~ 1 }} {{ 10 - 3 - 2 }} {{ 2 * 3 % 4 }} {{ 100 // 7 // 2 }} {{ - - 3 }} {{ +-3 }} {{ not not 1 }}
{{ 9223372036854775807 + 1 }} {{ 18446744073709551615 }} {{ 2**64 }} {{ -9223372036854775808 - 1 }} {{ 10**18 * 10 }}
{{ 'ab' * 3 }} {{ 3 * 'ab' }} {{ 'ab' * 0 }} {{ 'ab' * -1 }} {{ [1] * 2 }} {{ (1,) * 2 }} {{ [1] + [2, 3] }} {{ (1,) + (2,) }}
{{ 'x' - 1 }}
{{ [1] + (2,) }}
{{ none + 1 }}
{{ 1 % 0 }}
{{ 1 // 0 }}
{{ 1.0 / 0 }}
{{ 0 ** -1 }}
{{ -'a' }}
{{ {} + {} }}
{{ 'a' * 'b' }}
{{ 1.5 * 'a' }}
{{ 10.0 ** 400 }}
{{ 1_000.5 }} {{ 0b101 }} {{ 0o17 }} {{ 0xFf }} {{ 1e3 }} {{ 1E-2 }} {{ 00 }} {{ 1.5e+3 }}
{{ 0.1 }} {{ 1e15 }} {{ 1e16 }} {{ 123456789012345680.0 }} {{ 1e-4 }} {{ 1e-5 }} {{ 5e-324 }} {{ 1.7976931348623157e308 }} {{ -0.0 }}
{{ 'a' 'b' "c" ~ 'd' }} {{ ('a' 'b') | upper }}
""")

each("comparison", r"""
{{ 1 < 2 <= 2 != 3 }} {{ 3 > 2 > 1 }} {{ 1 == 1.0 == True }} {{ 'a' < 'b' < 'c' }} {{ [1, 2] < [1, 3] }} {{ [1] < [1, 0] }} {{ (1, 'a') <= (1, 'b') }}
{{ 1 == '1' }} {{ none == none }} {{ none == false }} {{ [] == () }} {{ {'a': 1} == {'a': 1.0} }} {{ {'a': 1} == {'a': 1, 'b': 2} }} {{ 'é' > 'z' }} {{ '😀' > '￿' }}
{{ true < 2 }} {{ 1.5 < 2 }} {{ 9007199254740993 == 9007199254740992.0 }} {{ 9007199254740993 > 9007199254740992.0 }}
{{ 1 < 'a' }}
{{ none < 1 }}
{{ {} < {} }}
{{ nope < 1 }}
{{ nope == nope2 }} {{ nope != 1 }} {{ nope == none }} {{ nope in [1] }} {{ nope in [nope2] }}
{{ 1 in [1.0] }} {{ 'ab' in 'cabd' }} {{ '' in 'a' }} {{ 1 in (1, 2) }} {{ 'k' in {'k': 1} }} {{ 3 in range(5) }} {{ 9 in range(0, 10, 2) }} {{ 4 in range(0, 10, 2) }} {{ 'a' in nope }}
{{ 1 in 'a' }}
{{ 1 in 5 }}
{{ [] in {} }}
{{ not 1 in [2] }} {{ 1 not in [2] }} {{ not (1 == 2) and 3 }} {{ 1 or 2 and 0 }} {{ (1 or 2) and 0 }} {{ 0 or '' or none }} {{ 1 and 2 and 3 }}
{{ 1 if nope else 2 if nope else 3 }} {{ (1 if false) is undefined }} {{ 'x' if 0 }}
{{ 1 if 1 if 0 else 5 else 6 }}
{{ 1 if 0 else 2 if 1 else 3 }} {{ (1 if 0) if 1 else 3 }}
""")

each("items", r"""
{{ s[0] }}{{ s[-1] }}{{ s[1:3] }}{{ s[::-1] }}{{ s[::2] }}{{ s[3:1:-1] }}{{ s[:-2] }}{{ s[-3:] }}{{ s[10:] }}{{ s[-100:2] }}{{ s[none:2] }}
{{ l[0] }}{{ l[-1] }}{{ l[1:3] }}{{ l[::-1] }}{{ l[::-2] }}{{ l[5:0:-2] }}{{ l[-2::-1] }}{{ l[:0] }}{{ l[99999999999999999999:] }}{{ l[::99999999999999999999] }}{{ l[::-99999999999999999999] }}
{{ (1, 2, 3)[1:] }}{{ 'abc'[True] }}{{ range(10)[2:8:2] | list }}{{ range(10)[3] }}{{ range(5)[-1] }}{{ range(10)[::-3] | list }}{{ range(3) }}{{ range(1, 9, 2) }}
{{ d.a }}{{ d['a'] }}{{ d['b c'] }}{{ d[1] }}{{ d[1.0] }}{{ d[true] }}{{ d.get('a') }}{{ d.nope }}{{ d['nope'] is undefined }}{{ d.get('x', 5) }}
{{ l.0 }}{{ l.1 }}{{ nested.0.1.2 }}{{ l['0'] is defined }}{{ s['upper']() }}{{ d['keys']() | list }}
{{ l[::0] }}
{{ l['a':] }}
{% set n = none %}{{ n[1:] }}
{{ d[1:2] }}
{{ nope[1:] }}
{{ l[9] }}{{ l[9].x }}
{{ none.x }}{{ none.x.y }}
{{ 5 .real }}{{ (5).imag }}{{ 1.5.real }}{{ true.real }}{{ (255).bit_length() }}{{ 2.0.is_integer() }}
{{ d[[1]] is undefined }}{{ d[(1, 2)] is undefined }}{{ {(1, 2): 'x'}[(1, 2)] }}{{ {none: 1}[none] }}{{ {1: 'a', 1.0: 'b', true: 'c'} }}
{{ {[1]: 2} }}
{{ [1, 2,] }}{{ (1,) }}{{ () }}{{ {'a': 1,} }}{{ (1) }}{{ 1, 2 }}{{ [] }}{{ [[]] }}
""", s="aé😀dÿ", l=[0, 1, 2, 3, 4, 5], d={"a": "A", "b c": 2}, nested=[[0, [1, 2, 3]]])

# ----------------------------------------------------------------------------------------------------------- printing

each("printing", r"""
{{ ['a', "it's", 'q"', 'b"\'', '\\', '\n\t\r', '\x00\x7f\x1f', 'é😀', '\u200b\u00a0\xad', '\U000e0001'] }}
{{ [1, 1.0, true, none, 1e20, -0.5, [], {}, (), (1,), {'a': (1, [2])}] }}
{{ {'a': 1}.items() }}{{ {'a': 1}.keys() }}{{ {'a': 1}.values() }}
{{ namespace(a=1, b='x') }}{{ [namespace()] }}
{{ [nope] }}{{ {'a': nope} }}{{ (nope,) }}
{{ '<b>' | safe }}{{ ['<b>' | safe] }}{{ '<' | e }}{{ ['<' | e] }}
{% macro m(a) %}{% endmacro %}{{ m }}{{ [m] }}
{{ 'a' is string ~ 'b' }}
{{ "\a\b\f\v\0\1012\x41\u00e9\U0001F600\q\'\"" | tojson }}
{{ 'line one \
continued' }}
{{ true ~ false ~ none ~ nope ~ [] ~ {} }}|{{ True }}{{ False }}{{ None }}{{ TRUE is defined }}
""")

# -------------------------------------------------------------------------------------------------------- text methods

each("text methods", r"""
{{ 'hello World'.capitalize() }}{{ 'ǆabc'.capitalize() }}{{ 'ßx'.capitalize() }}{{ 'HELLO'.swapcase() }}{{ 'Straße'.casefold() }}{{ 'ΑΣ ΣΑΣ Σ'.lower() }}{{ 'ŉﬀΐ'.upper() }}{{ 'İI'.lower() | length }}
{{ "they're bill's x2y".title() }}{{ 'ﬁne ǆ'.title() }}{{ "they're bill's x2y {a} -b (c" | title }}{{ 'ǆx' | title }}{{ 'ﬁx' | title }}
{{ 'a'.center(4, '*') }}{{ 'ab'.center(5, '*') }}{{ 'abc'.center(6, '*') }}{{ 'a'.ljust(3, '-') }}{{ 'é'.rjust(3) }}{{ '-5'.zfill(4) }}{{ '+5'.zfill(1) }}{{ ''.zfill(2) }}{{ 'a' | center(6) }}|{{ 'ab' | center(5) }}|
{{ 'a,b,,c'.split(',') }}{{ 'a,b,,c'.split(',', 1) }}{{ 'a,b,,c'.rsplit(',', 2) }}{{ ' a  b '.split() }}{{ ' a  b c '.split(None, 1) }}{{ ' a  b c '.rsplit(none, 1) }}{{ ''.split() }}{{ ''.split(',') }}{{ 'abc'.split('abc') }}{{ 'a,b'.split(sep=',', maxsplit=0) }}
{{ 'a\nb\r\nc\rd\x0be\u2028f\n'.splitlines() }}{{ 'a\nb\r\n'.splitlines(true) }}{{ ''.splitlines() }}{{ '\n'.splitlines() }}{{ 'a\n\nb'.splitlines(keepends=true) }}
{{ 'a=b=c'.partition('=') }}{{ 'a=b=c'.rpartition('=') }}{{ 'abc'.partition('=') }}{{ 'abc'.rpartition('=') }}
{{ 'xxabxx'.strip('x') }}{{ 'abcabc'.lstrip('ba') }}{{ 'éaé'.rstrip('é') }}{{ '\u3000 a \t\n'.strip() }}{{ ' a '.strip(none) }}{{ 'a'.strip('') }}{{ '\x1ca\x85'.strip() }}
{{ 'banana'.find('an') }}{{ 'banana'.rfind('an') }}{{ 'banana'.find('an', 2) }}{{ 'banana'.find('an', 2, 4) }}{{ 'banana'.find('x') }}{{ 'é😀a'.find('a') }}{{ 'abc'.find('') }}{{ 'abc'.find('', 5) }}{{ 'abc'.rfind('') }}{{ 'banana'.index('n') }}{{ 'banana'.count('a') }}{{ 'aaa'.count('aa') }}{{ 'aé'.count('') }}{{ 'banana'.count('a', -3) }}{{ 'abc'.find('c', -1) }}
{{ 'abc'.startswith('ab') }}{{ 'abc'.startswith(('x', 'a')) }}{{ 'abc'.startswith('b', 1) }}{{ 'abc'.endswith('c') }}{{ 'abc'.endswith('b', 0, 2) }}{{ 'abc'.endswith(()) }}{{ 'abc'.startswith('') }}{{ 'abc'.startswith('', 4) }}
{{ 'a1'.isalnum() }}{{ ''.isalnum() }}{{ 'é'.isalpha() }}{{ '1²'.isdigit() }}{{ '1²'.isdecimal() }}{{ '½'.isnumeric() }}{{ 'Ab'.isupper() }}{{ 'ab1'.islower() }}{{ '1'.islower() }}{{ ' \t'.isspace() }}{{ 'A B'.istitle() }}{{ 'AB'.istitle() }}{{ 'a_1'.isidentifier() }}{{ '1a'.isidentifier() }}{{ 'a\n'.isprintable() }}{{ 'é'.isascii() }}{{ ''.isascii() }}
{{ 'aXbX'.replace('X', '-') }}{{ 'aaa'.replace('a', 'b', 2) }}{{ 'aé'.replace('', '.') }}{{ 'aé'.replace('', '.', 2) }}{{ 'abc'.replace('abc', '') }}{{ 'a'.replace('a', 'aa', 0) }}{{ 'aaaa'.replace('aa', 'b') }}{{ ''.replace('', 'x') }}
{{ 'TestHook'.removeprefix('Test') }}{{ 'a.py'.removesuffix('.py') }}{{ 'a'.removesuffix('') }}{{ 'a\tb\tc'.expandtabs() }}{{ 'a\tb'.expandtabs(4) }}|{{ '-'.join('abc') }}{{ ''.join([]) }}{{ ', '.join({'a': 1, 'b': 2}) }}
{{ 'a'.join([1]) }}
{{ 'abc'.index('x') }}
{{ 'abc'.split('') }}
{{ 'a'.nope() }}
{{ 'a'.upper(1) }}
{{ 'abc'.startswith(1) }}
{{ 'abc'.upper }}{{ 1 / 0 }}
{{ 'a'.center('x') }}
""")

each("brace format", r"""
{{ '{} {} {}'.format(1, 'a', none) }}{{ '{0}{1}{0}'.format('a', 'b') }}{{ '{x}{y}'.format(x=1, y=[2]) }}{{ '{{}}'.format() }}{{ '{x[a]}{y.z}{l[1]}'.format(x={'a': 1}, y={'z': 2}, l=[3, 4]) }}
{{ '{:>5}|{:<5}|{:^5}|{:*^5}|{:5}|{:5}'.format('a', 'b', 'c', 'd', 'e', 1) }}{{ '{:.2}'.format('abc') }}{{ '{:é>3}'.format('x') }}
{{ '{:05d}|{:+d}|{: d}|{:,}|{:_}|{:x}|{:#X}|{:b}|{:#o}|{:c}'.format(42, 42, 42, 1234567, 1234567, 255, 255, 5, 8, 65) }}{{ '{:=+6}'.format(5) }}{{ '{:_x}'.format(1048575) }}
{{ '{:.2f}|{:8.3f}|{:e}|{:g}|{:%}|{:.1%}|{:G}|{}|{:.3}|{:10}|'.format(3.14159, 2.5, 12345.678, 0.0001, 0.5, 0.123, 1e20, 1e20, 1234.5, 1.5) }}{{ '{:,.2f}'.format(1234567.891) }}{{ '{:+.1f}'.format(-0.04) }}{{ '{:f}'.format(3) }}
{{ '{!r} {!s} {!a}'.format('é', 'é', 'é') }}{{ '{:{}}|{:{w}.{p}}'.format('a', 3, 'bcdef', w=4, p=2) }}{{ '{:d}'.format(true) }}{{ '{}'.format(true) }}{{ '{:>6}'.format(true) }}
{{ '{} {1}'.format(1, 2) }}
{{ '{}'.format() }}
{{ '{x}'.format(y=1) }}
{{ '{:d}'.format('a') }}
{{ '{:.2d}'.format(1) }}
{{ '{:5}'.format(none) }}
{{ '{'.format(1) }}
{{ '}'.format(1) }}
{{ '{0.__class__}'.format(1) }}|{{ '{x}'.format_map({'x': 1}) }}
""")

each("percent format", r"""
{{ '%s %d %r' % ('a', 5, 'q') }}{{ '%s' % 'one' }}{{ '%s' % [1] }}{{ '%(a)s-%(b)03d' % {'a': 1, 'b': 2} }}{{ '100%%' % () }}
{{ '%5d|%-5d|%05d|%+d|% d|%x|%X|%#x|%o|%#o|%c|%c' % (42, 42, 42, 42, 42, 255, 255, 255, 8, 8, 65, 'z') }}{{ '%5s|%-5s|%.2s' % ('a', 'b', 'cde') }}
{{ '%f|%.2f|%8.3f|%e|%g|%G|%.0f|%i|%d' % (1.5, 2.345, 3.14159, 12345.6789, 0.00001, 1e20, 2.5, 3.9, 3.9) }}{{ '%*d|%-*d|%.*f' % (5, 1, 4, 2, 1, 2.55) }}{{ '%a' % 'é' }}{{ '%05.1f' % -2.5 }}{{ '%s' % none }}
{{ 'x' % nope }}{{ 'x' % [] }}{{ 'x' % {} }}{{ 'x' % range(2) }}{{ '%s' % range(2) }}{{ 'x' % () }}
{{ 'x' % {}.items() }}
{{ 'x' % none }}
{{ '%s %s' % 'a' }}
{{ '%s' % ('a', 'b') }}
{{ '%d' % 'a' }}
{{ '%z' % 1 }}
{{ '%(a)s' % 'x' }}
{{ '%s' | format('a') }}{{ '%s %s' | format('a', 1) }}{{ '%(x)s' | format(x=2) }}{{ 'none' | format }}{{ '%s!' | format(['l']) }}{{ '%5.1f%%' | format(12.345) }}
""")

# ------------------------------------------------------------------------------------------------------------- filters

each("filters text", r"""
{{ 'aBc dEf' | capitalize }}{{ 5 | upper }}{{ none | lower }}{{ nope | upper }}{{ 'ß' | upper }}{{ 12 | string | length }}{{ true | string }}{{ [1] | string }}
{{ ' a ' | trim }}|{{ 'xax' | trim('x') }}|{{ 5 | trim }}|{{ nope | trim }}|{{ '--a-' | trim(chars='-') }}
{{ 'aXaX' | replace('X', '-') }}{{ 'aaa' | replace('a', 'b', 2) }}{{ 5 | replace(5, 6) }}{{ 'a' | replace('', '.') }}{{ 'a' | replace(old='a', new='b') }}
{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\n\nb' | indent(2, blank=true) }}|{{ 'a\nb\n' | indent('> ', true) }}|{{ '' | indent(3, true) }}|{{ 'a\r\nb' | indent(1) }}
{{ 'hello big world' | truncate(9, leeway=0) }}|{{ 'hello big world' | truncate(9, true, leeway=0) }}|{{ 'hello big world' | truncate(9, true, '', 0) }}|{{ 'hello' | truncate(3) }}|{{ 'hello world' | truncate(5, false, '…', 1) }}|{{ 'abc' | truncate }}
{{ 'a b-c d_e é1 ' | wordcount }}{{ '' | wordcount }}{{ 12 | wordcount }}{{ "don't" | wordcount }}
{{ '<a href="x">\'&' | e }}{{ '<' | e | e }}{{ '<' | safe | e }}{{ '<' | forceescape }}{{ '<' | e | forceescape }}{{ 5 | e }}{{ none | escape }}{{ '<' | safe is escaped }}{{ '<' is escaped }}
{{ ('<' | safe) + '<' }}{{ '<' + ('<' | safe) }}{{ ('<' | safe) ~ '<' }}{{ ('<%s>' | safe) % '<' }}{{ ('<{}>' | safe).format('<') }}{{ ('<' | safe).join(['<', '<' | safe]) }}{{ ('<' | safe) * 2 + '<' }}{{ ('<<' | safe)[0] + '<' }}{{ ('<a' | safe).upper() + '<' }}{{ ['<' | safe, '<'] | join('<') }}{{ ('<' | safe) | replace('<', '>') is escaped }}{{ 'ab' | safe | list }}{{ -0.5 | filesizeformat }}
{{ 'a b/c?é&=+~' | urlencode }}|{{ {'a b': 'c/d', 'e': 1} | urlencode }}|{{ [('x', 'y z')] | urlencode }}|{{ 5 | urlencode }}
{{ {'class': 'a b', 'id': none, 'x': nope, 'q': '"<'} | xmlattr }}|{{ {'a': 1} | xmlattr(false) }}|{{ {} | xmlattr }}|
{{ {'a b': 1} | xmlattr }}
{{ 1000 | filesizeformat }}|{{ 1 | filesizeformat }}|{{ 0 | filesizeformat }}|{{ 1024 | filesizeformat(true) }}|{{ 123456789 | filesizeformat }}|{{ '1e13' | filesizeformat }}|{{ 1e27 | filesizeformat }}|{{ 999 | filesizeformat }}|{{ 1.5 | filesizeformat }}
{{ 5 | indent }}
{{ nope | indent }}
{{ 'abc' | truncate(1) }}
{{ 'a' | upper(1) }}
{{ 'a' | trim(1) }}
""")

each("wordwrap", r"""
{{ 'Hello there -- you goof-ball, use the -b option!' | wordwrap(8) }}
{{ 'a verylongwordindeed and well-known half-baked--ideas x--y' | wordwrap(6) }}|{{ 'a verylongwordindeed b' | wordwrap(6, false) }}|{{ 'one two' | wordwrap(4, wrapstring='<br>') }}|{{ 'well-known' | wordwrap(6, true, none, false) }}
{{ '  lead  and   gaps   ' | wordwrap(7) }}|{{ 'line one\n\nline   two\n' | wordwrap(5) }}|{{ '' | wordwrap }}|{{ 'é😀é😀é😀é' | wordwrap(3) }}|{{ 'a-b-c-d-e-f' | wordwrap(3) }}|{{ '-- --- a-' | wordwrap(2) }}|{{ 'x\t y' | wordwrap(2) }}|{{ 'ab-cd-ef gh_ij-k1' | wordwrap(4) }}
{{ 'a' | wordwrap(0) }}
{{ 5 | wordwrap }}
""")

each("filters numbers", r"""
{{ '42' | int }}{{ ' 42 ' | int }}{{ '4_2' | int }}{{ '4.9' | int }}{{ '-3' | int }}{{ 'x' | int(5) }}{{ '0x1A' | int(base=16) }}{{ '1A' | int(0, 16) }}{{ '0b11' | int(0, 2) }}{{ '0o17' | int(0, 0) }}{{ 'inf' | int }}{{ none | int }}{{ [] | int(3) }}{{ true | int }}{{ -3.9 | int }}{{ '' | int }}{{ '1e3' | int }}{{ 1e18 | int }}
{{ '1.5' | float }}{{ 'x' | float }}{{ 'x' | float(2.5) }}{{ '1e3' | float }}{{ 'inf' | float }}{{ '-Infinity' | float }}{{ 'NaN' | float }}{{ 5 | float }}{{ ' 1_0.5 ' | float }}{{ '1__0' | float }}{{ none | float }}{{ true | float }}
{{ 2.5 | round }}{{ 3.5 | round }}{{ -2.5 | round }}{{ 2.675 | round(2) }}{{ 1234.5 | round(-2) }}{{ 5 | round }}{{ 1.05 | round(1) }}{{ 1e300 | round(2) }}{{ 0.5 | round(0) }}{{ 151 | round(-2) }}{{ 150 | round(-2) }}{{ 250 | round(-2) }}{{ 55.5 | round(-1) }}{{ 4.0 | round(-1) }}{{ 6.0 | round(-1) }}
{{ 2.1 | round(method='ceil') }}{{ 2.9 | round(method='floor') }}{{ 2.123 | round(2, 'ceil') }}{{ -2.1 | round(0, 'floor') }}{{ 21 | round(-1, 'ceil') }}{{ 5 | round(0, 'ceil') }}{{ 3.14159 | round(3, 'floor') }}
{{ -5 | abs }}{{ 5.5 | abs }}{{ -0.0 | abs }}{{ true | abs }}{{ (-5) | abs }}
{{ [1, 2, 3] | sum }}{{ [1.5, 2] | sum }}{{ [] | sum }}{{ [1] | sum(start=10) }}{{ [[1], [2]] | sum(start=[]) }}{{ rows | sum('v') }}{{ rows | sum(attribute='v', start=0.5) }}{{ range(5) | sum }}{{ [true, true] | sum }}
{{ [3, 1, 2] | max }}{{ [3, 1, 2] | min }}{{ ['b', 'A', 'c'] | max }}{{ ['b', 'A', 'c'] | min }}{{ ['b', 'A'] | min(true) }}{{ ['a', 'B'] | max(case_sensitive=true) }}{{ [] | max }}{{ (rows | max(attribute='v')).n }}{{ (rows | min(attribute='n')).n }}{{ 'hello' | max }}{{ {'a': 1, 'b': 0} | max }}{{ [1, 1.0, true] | max }}
{{ 'x' | round }}
{{ ['a'] | sum }}
{{ [1, 'a'] | max }}
{{ 'a' | abs }}
{{ nope | int }}
{{ nope | float }}
{{ 1.5 | round(1, 'up') }}
{{ 5 | max }}
""", rows=ROWS)

each("filters lists", r"""
{{ 'abc' | list }}{{ {'a': 1} | list }}{{ (1, 2) | list }}{{ range(3) | list }}{{ nope | list }}{{ 'é😀' | list }}
{{ [1, 2, 3] | first }}{{ [1, 2, 3] | last }}{{ 'abc' | first }}{{ 'abc' | last }}{{ [] | first }}{{ [] | last }}{{ {'a': 1, 'b': 2} | first }}{{ {'a': 1, 'b': 2} | last }}{{ range(5) | last }}{{ nope | first }}{{ nope | last }}{{ {'a': 1}.items() | last }}{{ '' | first is undefined }}
{{ [1, 2] | length }}{{ 'é😀' | length }}{{ {} | count }}{{ nope | length }}{{ range(7) | length }}{{ (1,) | count }}
{{ [1, 2, 3] | join }}{{ [1, none, 'a', nope] | join('-') }}{{ 'abc' | join(',') }}{{ rows | join(', ', attribute='n') }}{{ {'a': 1, 'b': 2} | join('+') }}{{ [] | join('x') }}{{ [1, 2] | join(0) }}{{ nope | join }}
{{ rows | join('|', 'in.x') }}
{{ rows[:2] | join('|', 'in.x') }}
{{ [3, 1, 2] | sort }}{{ ['b', 'A', 'c'] | sort }}{{ ['b', 'A', 'c'] | sort(case_sensitive=true) }}{{ [3, 1, 2] | sort(true) }}{{ 'bca' | sort }}{{ {'b': 1, 'a': 2} | sort }}{{ [1, 1.0, true] | sort }}{{ [[2, 1], [1, 2]] | sort }}{{ [2.5, 1, true] | sort(reverse=true) }}
{{ rows | sort(attribute='n') | map(attribute='n') | join }}{{ rows | sort(attribute='v,n') | map(attribute='n') | join }}{{ rows | sort(attribute='v', reverse=true) | map(attribute='n') | join }}{{ rows | sort(attribute='v') | map(attribute='n') | join }}{{ [[1, 'b'], [0, 'a']] | sort(attribute=1) }}{{ [[1, 'b'], [0, 'a']] | sort(attribute='0') }}
{{ [1, 2, 1, '1'] | unique | list }}{{ ['a', 'A', 'b'] | unique | list }}{{ ['a', 'A'] | unique(true) | list }}{{ rows | unique(attribute='v') | map(attribute='n') | list }}{{ [1, 1.0, true] | unique | list }}{{ 'banana' | unique | join }}{{ [(1,), (1,)] | unique | list }}
{{ [1, 2, 3] | reverse | list }}{{ 'aé😀' | reverse }}{{ (1, 2) | reverse | list }}{{ {'a': 1, 'b': 2} | reverse | list }}{{ range(4) | reverse | list }}{{ [1, 2] | map('string') | reverse }}
{{ [1, 2, 3, 4, 5] | batch(2) | list }}{{ [1, 2, 3] | batch(2, 'x') | list }}{{ [] | batch(2) | list }}{{ [1, 2] | batch(5, 0) | list }}{{ 'abc' | batch(2) | list }}{{ [1, 2] | batch(0) | list }}
{{ [1, 2, 3, 4, 5] | slice(3) | list }}{{ [1, 2, 3, 4, 5] | slice(2, 'x') | list }}{{ [1] | slice(3) | list }}{{ [1, 2, 3] | slice(3, 0) | list }}{{ 'abcd' | slice(3) | list }}
{{ rows | groupby('v') }}
{% for key, items in rows | groupby('v') %}{{ key }}:{{ items | map(attribute='n') | join(',') }};{% endfor %}{% for g in rows | groupby('ok') %}{{ g.grouper }}={{ g.list | length }}{{ g[0] }}{% endfor %}
{{ (['a', 'B', 'A'] | groupby(0))[0] }}{{ ([{'k': 'x'}, {'k': 'X'}] | groupby('k')) | length }}{{ ([{'k': 'x'}, {'k': 'X'}] | groupby('k', case_sensitive=true)) | length }}{{ ([{'k': 'x'}, {}] | groupby('k', default='z')) | map('first') | list }}
{{ {'b': 1, 'A': 3, 'c': 2} | dictsort }}{{ {'b': 1, 'A': 3} | dictsort(true) }}{{ {'b': 1, 'A': 3} | dictsort(by='value') }}{{ {'b': 1, 'A': 3} | dictsort(false, 'key', true) }}{{ {} | dictsort }}
{{ {'a': 1} | items | list }}{{ nope | items | list }}{% for k, v in {'x': 1, 'y': 2} | items %}{{ loop.index }}{{ k }}{{ v }}{{ loop.last }}{% endfor %}
{{ [3, 'a'] | sort }}
{{ [none, 1] | sort }}
{{ 5 | list }}
{{ none | length }}
{{ [1] | map('string') | length }}
{{ [1] | map('string') | last }}
{{ [{'a': 1}] | unique | list }}
{{ [1] | items | list }}
{{ nope | dictsort }}
{{ {'a': 1} | dictsort(by='size') }}
{{ [] | slice(0) | list }}
""", rows=ROWS)

each("filters selection", r"""
{{ rows | map(attribute='n') | list }}{{ rows | map(attribute='in.x', default='-') | list }}{{ rows | map(attribute='zz') | list }}{{ [[1, 2], [3]] | map(attribute=0) | list }}{{ [[1, 2], [3]] | map(attribute='0') | list }}{{ [[1, 2], [3]] | map('length') | list }}{{ ['a', 'b'] | map('upper') | join }}{{ ['a b', 'c'] | map('replace', ' ', '_') | list }}{{ [1, 2] | map('string') | map('length') | sum }}{{ [' a'] | map('trim') | first }}
{{ [0, 1, '', 'a', none, [], [0], nope] | select | list }}{{ [0, 1, '', none] | reject | list }}{{ [1, 2, 3] | select('odd') | list }}{{ [1, 2, 3] | reject('odd') | list }}{{ [1, 2, 3] | select('>', 1) | list }}{{ [1, 2, 3] | select('divisibleby', 3) | list }}{{ ['a', 1] | select('string') | list }}{{ [1, 2, 3] | select('in', [1, 3]) | list }}{{ 'abc' | select('ne', 'b') | join }}
{{ rows | selectattr('ok') | map(attribute='n') | list }}{{ rows | rejectattr('ok') | map(attribute='n') | list }}{{ rows | selectattr('v', '==', 2) | map(attribute='n') | list }}{{ rows | selectattr('in', 'defined') | list | length }}
{{ rows | selectattr('in.x', 'undefined') | list | length }}
{{ rows[:2] | selectattr('in.x', 'undefined') | list | length }}{{ rows | rejectattr('n', 'in', ['b', 'c']) | map(attribute='n') | list }}{{ rows | selectattr('n', 'lower') | map(attribute='n') | list }}{{ rows | selectattr('v', 'lt', 2) | first }}
{{ nope | map('upper') | list }}{{ nope | select | list }}{{ none | select | list }}{{ 0 | map('x') | list }}{{ {'a': 1, 'b': 2} | map('upper') | list }}
{% set g = [1, 2, 3] | map('string') %}{{ g | first }}{{ g | list }}{{ g | list }}
{% set it = [1, 2, 3] | select %}{% for x in it %}{{ x }}{{ loop.last }}{% endfor %}{% for x in it %}again{% else %}spent{% endfor %}
{% for x in [1, 2, 3, 4] | select('even') %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}
{% set ns = namespace(seen=[]) %}{% for x in [1, 2, 1, 3, 2] if x not in ns.seen %}{% set ns.seen = ns.seen + [x] %}{{ x }}{% endfor %}
{{ [1, 2] | map | list }}
{{ [1, 2] | map('nope') | list }}
{{ [1] | select('nope') | list }}
{{ [1] | map(attribute='a', zz=1) | list }}
{{ rows | selectattr | list }}
{{ 5 | map('upper') | list }}
{{ rows | map(attribute='in.x.y') | list }}
""", rows=ROWS)

each("filters other", r"""
{{ nope | default('d') }}{{ none | default('d') }}{{ none | default('d', true) }}{{ '' | d('e', boolean=true) }}{{ 0 | d(5) }}{{ nope | d }}|{{ nope.x | d if nope else 'n' }}{{ d.x.y | default('deep') if d.x is defined else 'no' }}
{{ 'abc' | attr('upper') is callable }}{{ d | attr('a') is defined }}{{ d | attr('get') is defined }}{{ namespace(q=3) | attr('q') }}{{ 'a' | attr('nope') is undefined }}{{ ('abc' | attr('upper'))() }}
{{ d | tojson }}{{ d | tojson(indent=2) }}{{ d | tojson(indent=0) }}{{ d | tojson(indent='--') }}{{ [1, [2, {}]] | tojson(indent=1) }}{{ d | tojson(separators=(',', ':')) }}{{ d | tojson(true) }}{{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }}{{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }}{{ (1, 'a') | tojson }}{{ '<&>\'"' | tojson }}{{ [1.0, 1e100, 1e-10, -0.0, 2**70] | tojson }}
{{ 'inf' | float | tojson }}{{ 'nan' | float | tojson }}{{ '\x7f\x80\u2028' | tojson }}{{ '\x7f\x80\u2028😀' | tojson(ensure_ascii=true) }}{{ '\b\f\n\r\t\x00\x1f/' | tojson }}{{ d | tojson(false, 1, [';', '=']) }}{{ ('<' | safe) | tojson }}
{{ nope | tojson }}
{{ [nope] | tojson }}
{{ d.items() | tojson }}
{{ namespace() | tojson }}
{{ {(1, 2): 3} | tojson }}
{{ [1] | map('string') | tojson }}
{{ {'b': 1, 1: 2} | tojson(sort_keys=true) }}
{{ nope | attr('x') }}
{{ 1 | default(1, 2, 3) }}
{{ 'a' | default(nope=1) }}
""", d={"a": [1, None, True], "é": {"x": "😀\u0001"}})

# --------------------------------------------------------------------------------------------------------------- tests

each("tests", r"""
{{ nope.x is defined if nope is defined }}
{{ nope is defined }}{{ none is defined }}{{ nope.x is defined if (nope is defined) else 'no' }}{{ d.x is defined }}{{ d.a is not defined }}{{ nope is undefined }}
{{ 1 is odd }}{{ 2 is even }}{{ -1 is odd }}{{ 3.0 is odd }}{{ 9 is divisibleby(3) }}{{ 9 is divisibleby 2 }}{{ true is odd }}
{{ 1 is number }}{{ true is number }}{{ 'a' is number }}{{ 1 is integer }}{{ true is integer }}{{ 1.0 is integer }}{{ 1.0 is float }}{{ 1 is float }}{{ true is boolean }}{{ 1 is boolean }}{{ none is none }}{{ nope is none }}{{ true is true }}{{ 1 is true }}{{ false is false }}{{ 0 is false }}
{{ 'a' is string }}{{ ('a' | safe) is string }}{{ [] is string }}{{ {} is mapping }}{{ d.items() is mapping }}{{ [] is sequence }}{{ 'a' is sequence }}{{ {} is sequence }}{{ (1,) is sequence }}{{ range(2) is sequence }}{{ 5 is sequence }}{{ nope is sequence }}{{ d.keys() is sequence }}{{ [] is iterable }}{{ 5 is iterable }}{{ nope is iterable }}{{ none is iterable }}{{ d.values() is iterable }}{{ namespace() is iterable }}{{ ([] | map('upper')) is iterable }}{{ ([] | map('upper')) is sequence }}
{{ range is callable }}{{ 'a'.upper is callable }}{{ 'a' is callable }}{{ namespace is callable }}{{ dict is callable }}{{ nope is callable }}{% macro m() %}{% endmacro %}{{ m is callable }}
{{ 'abc' is lower }}{{ 'ABC' is upper }}{{ 'Abc' is lower }}{{ '1' is upper }}{{ 'É' is upper }}{{ 5 is lower }}{{ none is upper }}
{{ 1 is eq 1 }}{{ 1 is eq(1.0) }}{{ 1 is equalto 2 }}{{ 1 is ne 2 }}{{ 2 is gt 1 }}{{ 2 is ge 2 }}{{ 1 is lt 2 }}{{ 1 is le 0 }}{{ 2 is greaterthan 1 }}{{ 2 is lessthan(1) }}{{ 1 is in [1] }}{{ 'a' is in 'abc' }}{{ 1 is not in [1] }}
{{ none is sameas none }}{{ 1 is sameas 1.0 }}{{ true is sameas true }}{{ [] is sameas [] }}{{ d is sameas d }}
{{ 'upper' is filter }}{{ 'nope' is filter }}{{ 'odd' is test }}{{ 'nope' is test }}
{{ 1 is not odd }}{{ not 1 is odd }}{{ 1 is odd and 2 is even }}{{ 1 is odd or nope.x }}{{ 'y' if 1 is odd else 'n' }}{{ [1 is odd, 2 is odd] }}{{ 5 is odd | string }}{{ -1 is odd }}{{ 1 + 1 is even }}{{ d.a is eq 1 }}
{{ 'a' is odd }}
{{ nope is odd }}
{{ 1 is divisibleby 0 }}
{{ 1 is divisibleby }}
{{ 1 is gt 'a' }}
{{ 1 is in 5 }}
{{ 1 is odd is even }}
{{ 1 is odd(2) }}
""", d={"a": 1})

# ---------------------------------------------------------------------------------------------------------- statements

each("loops", r"""
{% for x in [1, 2, 3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}
{% for x in [] %}a{% else %}b{% endfor %}{% for x in 'ab' %}{{ x }}{% else %}b{% endfor %}{% for x in nope %}a{% else %}u{% endfor %}{% for x in {'k': 1} %}{{ x }}{% endfor %}
{% for a, b in [(1, 2), (3, 4)] %}{{ a + b }}{% endfor %}{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}{% for (a, b) in ['xy'] %}{{ a }}{{ b }}{% endfor %}
{% for a, in [[1]] %}{{ a }}{% endfor %}
{% set a, = [1] %}{{ a }}{% for x in 1, 2, %}{{ x }}{% endfor %}
{% for x in [1, 2, 3, 4] if x is even %}{{ x }}{{ loop.index }}{{ loop.length }}{% endfor %}{% for x in [1] if false %}a{% else %}none{% endfor %}
{% for x in [1, 2] %}{% for y in [3, 4] %}{{ loop.index }}{{ x }}{{ y }}{% endfor %}{{ loop.index }};{% endfor %}
{% for x in [1, 2] %}{% set outer = loop %}{% for y in [3, 4] %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}
{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }}{{ loop.cycle('a', 'b', 'c') }} {% endfor %}
{% for x in range(5) %}{% if x == 1 %}{% continue %}{% elif x == 3 %}{% break %}{% endif %}{{ x }}{% else %}no{% endfor %}{% for x in [1] %}{% break %}{% else %}e{% endfor %}{% for x in [1, 2] %}{% continue %}{% else %}c{% endfor %}
{% for x in [1, 2] %}{% filter upper %}a{% if x == 1 %}{% continue %}{% endif %}b{% endfilter %}{% endfor %}
{% for n in t recursive %}{{ loop.depth }}{{ n.v }}{% if n.c %}[{{ loop(n.c) }}]{% endif %}{% endfor %}
{% for n in t recursive %}{{ loop.index }}{{ loop.length }}{{ loop.depth0 }}{{ n.v }}{{ loop(n.c or []) }}{% else %}-{% endfor %}
{% for x in [1, 2, 3] %}{{ loop.previtem | default('-') }}{{ loop.nextitem | default('-') }}{% endfor %}{% for x in [1] %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}
{% set x = 0 %}{% for i in [1, 2, 3] %}{{ x }}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}
{% for i in [1, 2] %}{% if i == 1 %}{% set y = 'set' %}{% endif %}{{ y is defined }}{% endfor %}{{ i is defined }}{{ y is defined }}{{ loop is defined }}
{% for k, v in {'a': 1, 'b': [2]}.items() %}{{ k }}{{ v }}{% endfor %}{% for v in {'a': 1}.values() %}{{ v }}{% endfor %}
{% for x in [[1, 2], [3]] %}{{ loop.index }}{% for y in x recursive %}{{ y }}{{ loop.depth }}{% endfor %}{% endfor %}
{% for x in [1, 2, 3] %}{{ x }}{{ ', ' if not loop.last }}{% endfor %}{% for x in (1, 2), [3] %}{{ x }}{% endfor %}{% for x in 1, 2 %}{{ x }}{% endfor %}
{% for x in [1, 2, 3] recursive %}{{ x }}{% endfor %}{% for x in [3, 4] if x > 3 recursive %}{{ x }}{% endfor %}
{% for x in none %}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{% endfor %}
{% for a, b in [(1,)] %}{% endfor %}
{% for a, b in [1] %}{% endfor %}
{% for x in [1] %}{{ loop() }}{% endfor %}
{% for x in [1] %}{{ loop([2]) }}{% endfor %}
{% for loop in [1] %}{% endfor %}
{% break %}
{% for x in [1] %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}
{% for x in [1] %}{{ loop.cycle() }}{% endfor %}
{% for x.y in [1] %}{% endfor %}
""", t=[{"v": 1, "c": [{"v": 2, "c": [{"v": 3}]}, {"v": 4}]}, {"v": 5}])

each("set and with", r"""
{% set a = 1 %}{% set b, c = 2, 3 %}{% set (d, e) = [4, 5] %}{% set f = 6, 7 %}{{ a }}{{ b }}{{ c }}{{ d }}{{ e }}{{ f }}{% set g = (1 if false) %}{{ g is defined }}
{% set t %}a {{ 1 + 1 }} b{% endset %}{{ t }}{{ t is string }}{% set u | upper | replace('A', 'x') %}abc{% endset %}{{ u }}{% set v | trim %} x {% endset %}[{{ v }}]
{% set ns = namespace() %}{% set ns.a = 1 %}{% set ns.b %}block{% endset %}{% set ns.c, d = 3, 4 %}{{ ns.a }}{{ ns.b }}{{ ns.c }}{{ d }}{{ ns.zz is defined }}{{ ns['a'] }}
{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{% set other = ns %}{% set other.a = 5 %}{{ ns.a }}{% set ns.self = ns %}{{ ns.self.self.a }}
{% with %}{% set a = 1 %}{{ a }}{% endwith %}{{ a is defined }}{% set x = 1 %}{% with x = 2, y = x %}{{ x }}{{ y }}{% endwith %}{{ x }}{% with a, b = (1, 2) %}{% endwith %}
{% if 1 %}{% set z = 'in' %}{% endif %}{{ z }}{% if 0 %}{% set w = 1 %}{% else %}{% set w = 2 %}{% endif %}{{ w }}
{% set x = 'outer' %}{% set t %}{% set x = 'inner' %}{{ x }}{% endset %}{{ t }}{{ x }}{% filter upper %}{% set x = 'f' %}{{ x }}{% endfilter %}{{ x }}
{% filter upper | replace('A', '*') %}a{{ 'b' }}{% endfilter %}{% filter indent(2, true) %}x{% endfilter %}
{% generation %}{% set q = 1 %}g{{ q }}{% endgeneration %}{{ q is defined }}
{% block one %}[{{ v }}{% set v = 2 %}{{ v }}]{% endblock %}{{ v }}{% for i in [1] %}{% block two scoped %}{{ i }}{% endblock two %}{% block three %}{{ i is defined }}{% endblock %}{% endfor %}
{% print 1 + 1 %}{% print 'a', 'b' %}{% if true: %}colon{% endif %}
{% set messages = messages[1:] %}{{ messages }}{% set v = v ~ 'x' %}{{ v }}
{% set true = 1 %}
{% set 1 = 1 %}
{% set a.b = 1 %}
{% set a, b = 1 %}
{% set ns = namespace(_x=1) %}
{% set x = namespace(1) %}
{% set ns = namespace() %}{{ ns.a }}|{{ ns.a.b }}
{% block a %}{% endblock %}{% block a %}{% endblock %}
{% set x %}unclosed
{% set %}
{% with a %}{% endwith %}
""", v="V", messages=[1, 2, 3])

each("macros", r"""
{% macro m(a, b=2, *c) %}{% endmacro %}
{% macro m(a, b='B') %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=1, a=2) }}{{ m(*[1, 2]) }}{{ m(**{'a': 1}) }}{{ m() }}{{ m(1, *[5]) }}{{ m(a=nope) }}
{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}{{ m() }}{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}{{ m.catch_varargs }}{{ m.caller }}
{% macro m(x) %}{{ caller(x) if caller else 'none' }}{% endmacro %}{{ m(1) }}{% call(y) m(2) %}<{{ y }}>{% endcall %}
{% macro m(x) %}{{ caller(x) if caller else 'none' }}{% endmacro %}{% call m(3) %}plain{% endcall %}
{% macro m(x) %}{{ caller(x, 1) }}{% endmacro %}{% call(y, z=2) m(3) %}{{ y }}{{ z }}{{ kwargs }}{% endcall %}
{% macro m() %}({{ caller() }}){% endmacro %}{% set v = 1 %}{% call m() %}{{ v }}{% set v = 2 %}{% endcall %}{{ v }}{% call m() %}{% call m() %}x{% endcall %}{% endcall %}
{% macro fact(n) %}{{ n if n < 2 else n * fact(n - 1) | int }}{% endmacro %}{{ fact(5) }}{{ fact(5) is string }}
{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}b{{ g }}{% endmacro %}{% set g = 'late' %}{{ a() }}
{% set x = 'top' %}{% macro m(x) %}{{ x }}{% set x = 'in' %}{{ x }}{% endmacro %}{{ m('arg') }}{{ x }}{{ m() }}
{% macro m(a, b=a ~ '!') %}{{ b }}{% endmacro %}{{ m('x') }}{{ m('x', 'y') }}
{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}{{ m is defined }}
{% macro outer() %}{% macro inner() %}i{% endmacro %}{{ inner() }}{% endmacro %}{{ outer() }}{{ inner is defined }}
{% macro m(loop) %}{{ loop }}{% endmacro %}{{ m(1) }}{% for i in [7] %}{{ m(loop.index) }}{% endfor %}
{% macro m() %}x{% endmacro %}{{ m() | upper }}{{ m() ~ m() }}{{ [m()] }}{% if m() %}t{% endif %}{{ m() + 'y' }}
{% macro m(caller) %}{% endmacro %}{{ m(1) }}
{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}
{% macro m(a) %}{% endmacro %}{{ m(b=2) }}
{% macro m() %}{% endmacro %}{% call m() %}{% endcall %}
{% macro m(a, a) %}{% endmacro %}
{% macro m(a=1, b) %}{% endmacro %}
{% macro %}{% endmacro %}
{% call 5 %}{% endcall %}
{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}
{{ m(1 }}
{% macro m(**kw) %}{% endmacro %}
{{ dict(**5) }}
{{ m(a=1, a=2) }}
{{ m(a=1, 2) }}
""")

each("globals", r"""
{{ range(3) | list }}{{ range(1, 3) | list }}{{ range(5, 1, -2) | list }}{{ range(3, 1) | list }}{{ range(true) | list }}{{ range(100000) | length }}
{{ dict(a=1) }}{{ dict([('a', 1), ['b', 2]]) }}{{ dict({'a': 1}, a=2, c=3) }}{{ dict() }}{{ dict(['xy']) }}
{% set c = cycler(1, 2) %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.current }}
{% set j = joiner('|') %}{{ j() }}a{{ j() }}b{{ j() }}{% set k = joiner() %}{{ k() }}x{{ k() }}
{{ strftime_now('%d/%m/%y %H:%M:%S %A %a %B %b %j %U %w %W %p %I %y %% %f %Z%z.') }}{{ strftime_now('%F %T %D %e %-d %R') }}{{ strftime_now('') }}{{ strftime_now('no directive é') }}
{{ raise_exception('a' ~ 1) }}
{{ raise_exception(5) }}
{{ raise_exception() }}
{{ raise_exception(message='named') }}
{{ range(100001) }}
{{ range() }}
{{ range(1, 2, 0) }}
{{ range('a') }}
{{ range(1.5) }}
{{ cycler() }}
{{ dict(1) }}
{{ strftime_now() }}
{{ undefined_function(1) }}
{{ 'a'() }}
{{ [1].append(2) }}
{{ {}.update({'a': 1}) }}
{{ {}.pop('a') }}
{{ [1].count(1) }}{{ [1, 2].index(2) }}{{ (1, 1).count(1) }}{{ [1].copy() }}{{ {'a': 1}.copy() }}{{ [1, 2, 1].index(1, 1) }}
{{ [1].index(5) }}
{{ [].append is defined }}{{ [].__class__ is defined }}{{ ''.format.__self__ is defined }}{{ {}.__len__ is defined }}
{{ ().__class__.__base__ }}
{% include 'a' %}
{% import 'a' as b %}
{% from 'a' import b %}
{% extends 'a' %}
""")

# ---------------------------------------------------------------------------------------------------------- whitespace

for i, text in enumerate([
    "  {% if 1 %}  \n  a\n  {% endif %}  \n", "\t{%- if 1 +%}\n x {%+ endif -%}\n\n y", "a {%- set x = 1 -%} b", "a{{ 1 }}\n{{ 2 }}\n\n{{- 3 -}}\n\n4",
    "{#- c -#}  x  {# d #}\ny\n  {# e #}\n  z {#+ f +#}\nw", "{% raw %} {{ x }} {% endraw %}\nz", "{% raw -%}  a\n  {%- endraw %}  b", "  {% raw %}\n  x\n  {% endraw %}\n  y",
    "{%- raw -%} {% if %} {# {%- endraw -%} x", "a\r\n\r\nb\rc\n\n", "\n\n{% if 1 %}\n\nx\n\n{% endif %}\n\n", "{% if 1 %}a{% endif %}\n\n{% if 1 %}b{% endif %}\nc",
    "x {% if 1 %}\n y\n\t {% endif %}\nz", "  {{ 'a' }}  {% set x = 1 %}  \n  {{ x }}", "{{ '%}' }}{% set x = '}}' %}{{ x }}{{ {'a': {'b': 1}} }}", "{{1}}{{-1}}{{+1}}{{ -1 }}{{ - 1}}",
    "{% for i in [1,2] -%}\n  {{ i }}\n{%- endfor %}", "{% for i in [1,2] %}\n  {{ i }}\n{% endfor %}", "\u00a0{%- if 1 %} x \u3000{%- endif %}", "\u00a0{% if 1 %}x{% endif %}", "{{ 'a\n\n  b' }}\n  {%- set y = 'c\nd' %}{{ y }}",
    "a{#\n{% if %}\n#}b", "{# {{ #}x", "{{ '{#' }}{# '#}x", "{", "{ {", "{}", "}} %} #}", "{{ 1 }}{", "a{ % b", "{%raw%}{{{%endraw%}", "{%-raw-%} a {%-endraw-%} b", "{%\n  set\n  x\n  =\n  1\n%}\n{{\n x\n}}",
    "{# a", "{#", "{% raw %}", "{% raw %}a", "{{ 1", "{% if 1", "{{ 'a }}", "{{ 1 }", "{% endif %}", "{{ }}", "{% %}", "{{ a b }}", "{{ 1.a }}", "{{ (1 }}", "{{ ] }}", "{{ a. }}", "{{ a[] }}", "{{ {1} }}", "{{ [1 2] }}",
    "{{ $ }}", "{{ a | }}", "{{ a is }}", "{{ not }}", "{{ 1 if }}", "{{ a ? b }}", "{{ é }}{{ é1 is defined }}", "{{ 1a }}", "{{ '\\x4' }}", "{{ a[1:2:3:4] }}", "{% if %}{% endif %}", "{% for %}{% endfor %}", "{% for x %}{% endfor %}",
    "{% for x in %}{% endfor %}", "{% if 1 %}{% else %}{% else %}{% endif %}", "{% if 1 %}{% elif %}{% endif %}", "{% macro m( %}{% endmacro %}", "{% do 1 %}", "{% trans %}", "{% endfor %}", "{% if 1 %}{% endfor %}", "{% set x = %}", "{% set x 1 %}", "{% filter %}{% endfilter %}",
    "{% if false %}{{ 'a' | nope }}{% endif %}fine", "{% if true %}{{ 'a' | nope }}{% endif %}", "{{ ('a' | nope) if false else 'fine' }}", "{% if false %}{{ 1 is nope }}{% endif %}fine", "{% if false %}{% for x in [] %}{{ x | nope }}{% endfor %}{% endif %}",
    "{% if false %}{% elif 1 is nope %}{% endif %}", "{% macro m() %}{{ 1 | nope }}{% endmacro %}",
]):
    base.snippet(f"source {i}", text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    a = parser.parse_args()
    done = []
    for name, template, inputs in base.CASES:
        try:
            rendered = base.render(name, base.TEMPLATES[template], inputs)
        except SyntaxError as e:  # in the Python that jinja2 made of it: a break outside a loop, for example
            rendered = {"name": name, "inputs": inputs, "error": {"kind": "syntax", "message": e.msg}}
        done.append({**rendered, "template": template})
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in done)
    templates = ",\n".join(f"{json.dumps(name)}:{json.dumps(text)}" for name, text in base.TEMPLATES.items())
    a.out.write_text(f'{{"now":"{base.NOW.isoformat()}","jinja2":"{base.jinja2.__version__}","templates":{{\n{templates}\n}},"cases":[\n{lines}\n]}}\n')
    print(f"{len(done)} cases, {sum('error' in case for case in done)} of them errors")
    for case in done:
        if "error" in case:
            print("   ", case["name"], "->", case["error"]["kind"], case["error"]["message"][:110].replace("\n", " "))


if __name__ == "__main__":
    main()
