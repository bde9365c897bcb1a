"""Small templates, one for each thing of the language that chat templates use (and for what must fail)."""

DATA = {
    "text": "The quick brown fox", "padded": "  two  words \n", "empty": "", "nothing": None, "yes": True, "no": False,
    "n": 7, "neg": -7, "big": 9007199254740993, "pi": 3.14159, "small": 1e-7, "huge": 1.5e300, "whole": 2.0,
    "list": [3, 1, 2], "names": ["Zoe", "adam", "Bob", "adam"], "nested": [[1, 2], [3, [4, 5]], []],
    "d": {"b": 1, "a": {"x": [1, {"y": None}]}, "items": "data", "é": "ü", "_hidden": "data too"},
    "users": [{"name": "Ann", "age": 30, "tags": ["x", "y"], "ok": True}, {"name": "bob", "age": 25, "tags": []},
              {"name": "Cid", "age": 35, "ok": False}],
    "uni": "Ünïcödé ß ǆ İ Σας 日本 😀", "quote": "it's \"q\" \\ \u0007\x7f\u200b", "lines": "a\nb\r\n\nc\u2028d",
    "html": "<b>&'\"</b>",
}


def groups():
    yield "output", [
        "{{ text }}|{{ nothing }}|{{ yes }}|{{ no }}|{{ n }}|{{ neg }}|{{ big }}",
        "{{ pi }} {{ small }} {{ huge }} {{ whole }} {{ 1e16 }} {{ 1e15 }} {{ 123456789.123 }} {{ 0.0001 }} {{ 1e-5 }}",
        "{{ list }} {{ nested }} {{ d }} {{ () }} {{ (1,) }} {{ (1, 'a') }}", "{{ quote }} {{ [quote] }} {{ [uni] }}",
        "{{ undefined_name }}|{{ d.missing }}|{{ list[10] }}|{{ [undefined_name] }}", "{{ undefined_name.x }}",
        "{{ undefined_name[0] }}", "{{ d.missing.more }}", "{{ undefined_name() }}", "{{ 'a' + undefined_name }}",
        "{{ undefined_name + 1 }}", "{{ undefined_name < 1 }}", "{{ -undefined_name }}",
        "{{ undefined_name == other_name }} {{ undefined_name == none }} {{ not undefined_name }}",
        "{{ 'a' in undefined_name }}{% for x in undefined_name %}x{% else %}none{% endfor %}",
        "{{ undefined_name ~ 'x' }} {{ undefined_name|length }} {{ undefined_name|list }} {{ undefined_name|upper }}",
        "{{ bos_token }}{{ eos_token }}{{ tools }}{{ documents }}{{ add_generation_prompt }}",
        "{{ tools is defined }} {{ tools is none }}", "{{ 'a' 'b' \"c\" }}", "{{ true }}{{ True }}{{ none }}{{ None }}",
        "{{ range(3) }} {{ range(1, 9, 3) }} {{ range(3)|list }}",
        "{{ dict(a=1, b='x') }} {{ dict([('k', 2)], z=3) }}",
    ]
    yield "literals", [
        r"{{ 'a\nb\tc\\d\'e\"f' }}", r"{{ '\x41\u00e9\U0001F600\101\0' }}", r"{{ '\d \q \é \日' }}", r"{{ '\u12' }}",
        r"{{ '\ud800' }}", "{{ 'line\nbreak' }}", "{{ 'a\\\nb' }}", "{{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_000 }} {{ 00 }}",
        "{{ 1_0.5_0 }} {{ 1.5e3 }} {{ 2E-2 }} {{ 1e2 }}", "{{ 012 }}", "{{ 1__0 }}",
        "{{ {'a': 1, 'a': 2, 1: 'x', 1.0: 'y', none: 3, (1, 2): 4} }}", "{{ {[1]: 2} }}", "{{ [1, 2, ] }} {{ {'a': 1,} }}",
        "{{ 1, 2 }} {{ (1, 2,) }}", "{{ [] }}{{ {} }}{{ () }}", "{{ }}", "{{ 'open }}", "{{ 1 + }}", "{{ (1 }}", "{{ 1) }}",
        "{{ [1} }}", "{{ a b }}", "{{ ? }}", "{{ 'x' if }}", "{{ list.0 }} {{ nested.1.0 }}",
        "{{ Ünïcode|default('ok') }}",
    ]
    yield "operators", [
        "{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 10 }}",
        "{{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 2 ** -1 }} {{ 0.5 ** 2 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 6 / 3 }}",
        "{{ 1 / 0 }}", "{{ 1 // 0 }}", "{{ 1 % 0 }}", "{{ 1.0 / 0 }}", "{{ 0 ** -1 }}", "{{ true + true }} {{ -true }} {{ +yes }}",
        "{{ 'a' + 'b' }} {{ 'a' * 3 }} {{ 2 * 'ab' }} {{ 'a' * -1 }}|{{ [1] + [2] }} {{ [0] * 3 }} {{ (1,) + (2,) }}",
        "{{ 'a' + 1 }}", "{{ [1] + (2,) }}", "{{ {} + {} }}", "{{ 'a' - 'b' }}", "{{ none + 1 }}",
        "{{ 'a' ~ 1 ~ none ~ [1] ~ 2.0 }}", "{{ 1 ~ 2 + 3 }} {{ 1 + 2 ~ 3 }}",
        "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 == true }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 'B' < 'a' }}",
        "{{ 1 < 'a' }}", "{{ none < 1 }}", "{{ {} < {} }}", "{{ 'a' == 1 }} {{ [1] == [1.0] }} {{ {'a': 1} == {'a': true} }} {{ (1,) == [1] }}",
        "{{ 1 in list }} {{ 9 not in list }} {{ 'qu' in text }} {{ '' in '' }} {{ 'b' in d }} {{ 1 in d }} {{ not 1 in list }}",
        "{{ 1 in 'abc' }}", "{{ 1 in 5 }}", "{{ [1] in d }}", "{{ not yes or no and nothing }} {{ yes and 0 }} {{ '' or 'x' }} {{ not not 1 }}",
        "{{ yes and text and n }} {{ no or nothing or 0 }}", "{{ 'a' if yes else 'b' }} {{ 'a' if no else 'b' if no else 'c' }} [{{ 'a' if no }}]",
        "{{ ('a' if no).x }}", "{{ 1 if 2 if 3 else 4 }}", "{{ (1 if no else 2) + 3 }}", "{{ n is odd and neg is odd }}",
        "{{ -n|abs }} {{ (-n)|abs }} {{ - n }} {{ --n }} {{ +-n }}", "{{ 'a' 'b' ~ 'c' * 2 }}", "{{ big + 1 }} {{ big == 9007199254740992.0 }}",
        "{{ 1.0 * 3 }} {{ 0.1 + 0.2 }} {{ 1e308 * 10 }} {{ -1e308 * 10 }}", "{{ 10 // 0.3 }} {{ -10 % 0.3 }}",
        "{{ 'yes' if 0.0 else 'no' }}{{ 'yes' if ' ' else 'no' }}{{ 'yes' if [0] else 'no' }}{{ 'yes' if {} else 'no' }}",
    ]
    yield "subscripts", [
        "{{ list[0] }} {{ list[-1] }} {{ list[-4] }}| {{ text[0] }} {{ text[-1] }} {{ uni[8] }} {{ d['b'] }} {{ d.b }} {{ list['x'] }}",
        "{{ list[1:] }} {{ list[:-1] }} {{ list[::-1] }} {{ list[::2] }} {{ list[-2:] }} {{ list[5:] }} {{ list[2:0:-1] }} {{ list[:] }}",
        "{{ text[4:9] }} {{ text[::-1] }} {{ uni[::2] }} {{ uni[-3:] }} {{ text[100:] }}| {{ text[:100] }} {{ text[-3:-1] }} {{ text[10:2:-3] }}",
        "{{ (1, 2, 3)[1:] }} {{ list[none:2] }}", "{{ list[::0] }}", "{{ n[0] }}|{{ nothing.x }}", "{{ nothing[1:] }}", "{{ d[1:] }}", "{{ list['0'] }}|{{ list[0.0] }}|{{ list[true] }}",
        "{{ d['items'] }} {{ d.get('items') }} {{ d.a.x[1].y }} {{ d['a']['x'][0] }}", "{{ d.é }} {{ d['é'] }}",
        "{{ list['a':2] }}", "{{ d[[1]] }}|{{ d[undefined_name] }}|{{ list[undefined_name] }}|", "{{ d._hidden }}",
        "{{ ''.__class__.__mro__ }}", "{{ nested[1][1][0] }} {{ nested[1, 2] }}",
        "{% set x = list[n - 6 : ] %}{{ x }}", "{{ range(10)[2] }} {{ range(10)[-1] }} {{ range(5)|length }}",
    ]
    yield "methods of strings", [
        "[{{ padded.strip() }}] [{{ padded.lstrip() }}] [{{ padded.rstrip() }}] {{ 'xxaxx'.strip('x') }} {{ 'éaé'.lstrip('é') }} {{ 'abc'.rstrip('cb') }}",
        "{{ text.split() }} {{ padded.split() }} {{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ 'a b  c'.split(none, 1) }} {{ ''.split() }} {{ ''.split(',') }}",
        "{{ 'a,b,c'.rsplit(',', 1) }} {{ ' a  b c '.rsplit(none, 1) }} {{ 'aXXXb'.rsplit('XX') }} {{ 'aXXXb'.split('XX') }} {{ 'a,b'.split(sep=',', maxsplit=0) }}",
        "{{ 'a'.split('') }}", "{{ 'x</think>y</think>z'.split('</think>')[-1] }} {{ ('<think>a</think>b'.split('</think>')|first).split('<think>')|last }}",
        "{{ lines.splitlines() }} {{ lines.splitlines(true) }} {{ 'a\n'.splitlines() }} {{ ''.splitlines() }}",
        "{{ text.startswith('The') }} {{ text.endswith(('x', 'y')) }} {{ text.startswith('quick', 4) }} {{ text.endswith('The', 0, 3) }} {{ ''.startswith('') }} {{ 'a'.startswith('', 2) }}",
        "{{ text.find('q') }} {{ text.find('zz') }} {{ uni.find('日') }} {{ 'aba'.rfind('a') }} {{ 'aaa'.find('a', 1) }} {{ 'abc'.find('') }} {{ 'abc'.rfind('') }} {{ 'abc'.find('c', -1) }}",
        "{{ 'abc'.index('c') }} {{ 'abcabc'.rindex('b') }}", "{{ 'abc'.index('z') }}", "{{ 'aaa'.count('a') }} {{ 'aaa'.count('aa') }} {{ 'é日'.count('') }} {{ 'aXa'.count('a', 1) }}",
        "{{ 'aaa'.replace('a', 'b') }} {{ 'aaa'.replace('a', 'b', 2) }} {{ 'abc'.replace('', '-') }} {{ 'é日'.replace('', '.', 2) }} {{ 'aaa'.replace('aa', '') }}",
        "{{ uni.upper() }} {{ uni.lower() }} {{ uni.title() }} {{ uni.capitalize() }} {{ \"they're ok\".title() }} {{ 'ﬁne ŉ'.upper() }} {{ 'ΑΣ ΑΣΑ Σ'.lower() }}",
        "{{ ', '.join(names) }} {{ ''.join([]) }} {{ '-'.join('abc') }} {{ ','.join(d) }}", "{{ ','.join(list) }}",
        "{{ '{} and {}'.format(1, 'x') }} {{ '{0}{1}{0} {a}'.format('x', 'y', a=2) }} {{ '{{}}'.format() }}", "{{ '{} {}'.format(1) }}", "{{ '{x}'.format() }}",
        "{{ 'a.b.c'.partition('.') }} {{ 'a.b.c'.rpartition('.') }} {{ 'abc'.partition('.') }} {{ 'abc'.rpartition('.') }}",
        "{{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.txt'.removesuffix('.txt') }} {{ 'abc'.removeprefix('z') }} {{ 'abc'.removesuffix('') }}",
        "[{{ 'ab'.ljust(5) }}] [{{ 'ab'.rjust(5, '*') }}] [{{ 'ab'.center(5) }}] [{{ 'abc'.center(6) }}] [{{ 'é'.center(4, '.') }}] {{ '7'.zfill(3) }} {{ '-7'.zfill(4) }}",
        "{{ 'abc'.isalpha() }} {{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ ' \t'.isspace() }} {{ ''.isalpha() }} {{ '²'.isdigit() }} {{ '½'.isnumeric() }} {{ '½'.isdecimal() }} {{ 'é日'.isalpha() }}",
        "{{ 'abc'.islower() }} {{ 'ABC'.isupper() }} {{ 'Abc Def'.istitle() }} {{ '1'.islower() }} {{ 'aB'.islower() }} {{ '日'.isupper() }}",
        "{{ text.nothing() }}", "{{ text.strip(1) }}", "{{ text.upper(1) }}", "{{ 'a'.replace('a') }}",
    ]
    yield "methods of containers", [
        "{{ d.keys() }} {{ d.values()|list }} {{ d.items()|list }}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
        "{{ d.get('b') }} {{ d.get('z') }} {{ d.get('z', 5) }} {{ d.get('zz', 1 + 1) }}",
        "{{ list.count(1) }} {{ list.index(2) }} {{ list.copy() }} {{ d.copy() == d }} {{ (1, 2).index(2) }}", "{{ list.index(9) }}", "{{ list.append(1) }}",
        "{{ d.update({}) }}", "{{ d.pop('b') }}", "{{ list.sort() }}", "{{ d.items()|length }} {{ d.keys()|first }} {{ 'b' in d.keys() }} {{ d.values()|list|length }}",
        "{% set x = d.items() %}{{ x|length }}{% for k, v in x %}{{ k }}{% endfor %}{% for k, v in x %}{{ loop.last }}{% endfor %}",
    ]
    yield "tests", [
        "{% for v in [nothing, yes, no, n, pi, text, list, d, (1,), '', 0, 1, range(2), users|map(attribute='name'), d.items(), undefined_name] %}"
        "{{ v is defined }},{{ v is undefined }},{{ v is none }},{{ v is string }},{{ v is mapping }},{{ v is sequence }},"
        "{{ v is iterable }},{{ v is number }},{{ v is integer }},{{ v is float }},{{ v is boolean }},{{ v is true }},{{ v is false }},{{ v is callable }}\n{% endfor %}",
        "{{ 3 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ -3 is odd }} {{ 2.0 is even }}", "{{ 'a' is odd }}", "{{ undefined_name is odd }}",
        "{{ 'abc' is lower }} {{ 'ABC' is upper }} {{ 1 is lower }} {{ 'a' is eq 'a' }} {{ 1 is equalto 1.0 }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 2 is ge 2 }} {{ 3 is greaterthan 2 }}",
        "{{ 1 is in list }} {{ 'x' is not in text }} {{ 5 is in([5]) }} {{ text is not string }} {{ not text is string }} {{ text is string and n is number }}",
        "{{ none is sameas none }} {{ true is sameas true }} {{ 1 is sameas true }} {{ d is sameas d }}", "{{ 'x'|safe is escaped }} {{ 'x' is escaped }}",
        "{{ 'upper' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }} {{ 'nope' is test }}", "{{ 1 is nope }}", "{{ 1 is odd is odd }}", "{{ x is defined }} {{ x.y is defined }}",
        "{{ 'yes' if text is defined else 'no' }} {{ n is number or undefined_name.x }}", "{{ d.x is defined and d.x }} {{ d.b is defined }} {{ strftime_now is defined }} {{ raise_exception is callable }}",
        "{{ n is divisibleby 7 == true }}", "{{ loop is defined }}{% for x in [1] %}{{ loop is defined }}{% endfor %}",
    ]
    yield "filters of text", [
        "[{{ padded|trim }}] {{ 'xax'|trim('x') }} {{ none|trim }} {{ 5|trim }} {{ text|upper }} {{ text|lower }} {{ text|capitalize }} {{ uni|upper }}",
        "{{ 'hello wORLD-foo (bar) [x] <y> they\\'re'|title }} {{ uni|title }} {{ none|upper }} {{ 12|title }}",
        "{{ text|replace('o', '0') }} {{ text|replace('o', '0', 1) }} {{ 5|replace(5, 6) }} {{ text|replace('', '.') }}", "{{ text|replace('a') }}",
        "{{ n|string + 'x' }} {{ list|string }} {{ none|string }} {{ pi|string|length }}", "{{ html|e }} {{ html|escape|e }} {{ html|safe|e }} {{ html|forceescape|forceescape }} {{ html|e|length }}",
        "{{ '<'|safe + '<' }} {{ '<' + '<'|safe }} {{ '<'|safe ~ '<' }} {{ ['<'|safe] }} {{ ('<'|safe) * 2 }} ",
        "{{ ('<'|safe).upper() + '&' }} {{ ('<'|safe)|trim + '&' }} {{ ('a<'|safe).replace('a', '&') }} {{ ('<a'|safe)[1:] + '>' }} {{ ('<'|safe).join(['>']) + '&' }}",
        "{{ lines|indent }}|{{ lines|indent(2) }}|{{ lines|indent(width=1, first=true) }}|{{ lines|indent(3, blank=true) }}|{{ 'a\nb'|indent('> ') }}|{{ 'a\n'|indent }}|{{ ''|indent }}", "{{ 5|indent }}",
        "{{ '%s-%d-%.2f'|format('a', 3, 2.5) }} {{ '%(x)s'|format(x=1) }} {{ '%5s|%-5s|%05d|%x|%X|%o|%e|%g|%%' % ('a', 'b', 42, 255, 255, 8, 12345.678, 0.0001) }} {{ '%r' % 'a' }} {{ '%s' % none }} {{ '%s' % ((1, 2),) }}",
        "{{ '%d' % 'a' }}", "{{ '%s %s' % 'a' }}", "{{ '%s' % (1, 2) }}", "{{ 'x' % 1 }}", "{{ '%d %i %+d % d' % (3.7, -3, 5, 5) }} {{ '%.3s|%10.2s|' % ('abcdef', 'xyz') }} {{ '%c' % 'x' }} {{ '%#x %#o' % (255, 8) }}",
        "[{{ 'ab'|center(6) }}] {{ list|join }} {{ list|join(', ') }} {{ users|join('-', attribute='name') }} {{ 'abc'|join('.') }} {{ d|join(',') }} {{ [none, true, 1.5, 'x']|join('|') }} {{ [['a']]|join }}",
        "{{ 'one two, three_4'|wordcount }} {{ text|length }} {{ uni|length }} {{ uni|reverse }} {{ list|count }}", "{{ 5|length }}", "{{ none|length }}", "{{ text|nope }}", "{% if no %}{{ text|nope }}{% endif %}ok",
        "{{ html|safe }} {{ none|safe }} {{ 'a\u00a0 '|trim|length }}",
    ]
    yield "tojson", [
        "{{ d|tojson }} {{ list|tojson }} {{ none|tojson }} {{ yes|tojson }} {{ pi|tojson }} {{ whole|tojson }} {{ 1e300|tojson }} {{ uni|tojson }} {{ quote|tojson }} {{ html|tojson }}",
        "{{ d|tojson(indent=2) }}", "{{ users|tojson(indent=4) }}", "{{ nested|tojson(indent=1) }} {{ []|tojson(indent=2) }} {{ {}|tojson(indent=2) }} {{ [[]]|tojson(indent=2) }}",
        "{{ d|tojson(separators=(',', ':')) }} {{ d|tojson(sort_keys=true) }} {{ uni|tojson(ensure_ascii=true) }} {{ d|tojson(indent='\t') }} {{ list|tojson(indent=0) }}",
        "{{ d|tojson(true) }} {{ (1, (2,))|tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }} {{ users|tojson|length }} {{ '\u2028\x7f\u0085'|tojson }}",
        "{{ undefined_name|tojson }}", "{{ [undefined_name]|tojson }}", "{{ {(1, 2): 3}|tojson }}", "{{ range(3)|tojson }}", "{{ users|map(attribute='name')|tojson }}", "{{ (users|tojson) + '<' }} {{ (users|tojson|safe) + '<' }}",
        "{{ d|tojson(separators=',') }}", "{{ d|tojson(indent=2, separators=(', ', ': ')) }}",
    ]
    yield "filters of numbers", [
        "{{ '42'|int }} {{ ' -4_2 '|int }} {{ '4.9'|int }} {{ 'x'|int }} {{ 'x'|int(5) }} {{ none|int }} {{ 3.99|int }} {{ -3.99|int }} {{ true|int }} {{ '0x1f'|int(base=16) }} {{ '1f'|int(0, 16) }} {{ '0b11'|int(0, 0) }} {{ '1__0'|int }} {{ list|int }}",
        "{{ '4.5'|float }} {{ 'x'|float }} {{ none|float(1.5) }} {{ 3|float }} {{ '1e3'|float }} {{ ' inf '|float }} {{ '-nan'|float }} {{ '1_0.5'|float }} {{ '.5'|float }} {{ '5.'|float }} {{ '1e'|float }}", "{{ undefined_name|int }}", "{{ undefined_name|float }}",
        "{{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 2.1|round(method='ceil') }} {{ -2.1|round(0, 'floor') }} {{ 5|round }} {{ 1234.5|round(-2) }} {{ 1250|round(-2) }} {{ 1350|round(-2) }} {{ 2.123|round(1, 'ceil') }} {{ 5|round(1, 'floor') }}",
        "{{ 'a'|round }}", "{{ 5|round(0, 'x') }}", "{{ -5|abs }} {{ -5.5|abs }} {{ true|abs }}", "{{ 'a'|abs }}", "{{ list|sum }} {{ users|sum(attribute='age') }} {{ [1.5, 2]|sum }} {{ [[1], [2]]|sum(start=[]) }} {{ []|sum }}", "{{ ['a']|sum }}",
        "{{ list|min }} {{ list|max }} {{ names|min }} {{ names|max(case_sensitive=true) }} {{ (users|max(attribute='age')).name }} [{{ []|max }}]", "{{ [1, 'a']|max }}",
        "{{ undefined_name|default('x') }} {{ undefined_name|d }} {{ none|default('x') }} {{ ''|default('x', true) }} {{ 0|d('z', boolean=true) }} {{ d.zz|default(d.b) }} {{ undefined_name|default }}|", "{{ undefined_name.x|default('y') }}",
    ]
    yield "filters of sequences", [
        "{{ list|sort }} {{ list|sort(reverse=true) }} {{ names|sort }} {{ names|sort(case_sensitive=true) }} {{ users|sort(attribute='age')|map(attribute='name')|list }} {{ 'hello'|sort }} {{ d|sort }} ",
        "{{ [1, 'a']|sort }}", "{{ [{}, {}]|sort }}", "{{ d|dictsort }} {{ {'b': 1, 'A': 2}|dictsort }} {{ {'b': 1, 'A': 2}|dictsort(true) }} {{ {'b': 1, 'a': 2}|dictsort(by='value', reverse=true) }}", "{{ list|dictsort }}", "{{ d|dictsort(by='x') }}",
        "{{ names|unique|list }} {{ ['A', 'a']|unique|list }} {{ ['A', 'a']|unique(true)|list }} {{ [1, 1.0, true, 2]|unique|list }} {{ users|unique(attribute='tags')|list|length if no else '' }}", "{{ [[1]]|unique|list }}",
        "{{ list|first }} {{ list|last }} {{ text|first }} {{ text|last }} {{ d|first }} [{{ []|first }}] [{{ ''|last }}] {{ users|map(attribute='age')|first }}", "{{ users|map(attribute='age')|last }}", "{{ 5|first }}",
        "{{ 'abc'|list }} {{ d|list }} {{ none|list if no else '' }} {{ list|reverse|list }} {{ 'abc'|reverse }} {{ d|reverse|list }} {{ (1, 2)|reverse|list }} {{ list|map('string')|reverse|list }}", "{{ 5|list }}", "{{ none|list }}",
        "{{ d|items|list }} {% for k, v in d|items %}{{ k }}{% endfor %} {{ undefined_name|items|list }}", "{{ list|items|list }}", "{{ [1, 2, 3, 4, 5]|batch(2)|list }} {{ [1, 2, 3]|batch(2, 'x')|list }} {{ []|batch(3)|list }}",
        "{{ users|map(attribute='name')|list }} {{ users|map(attribute='tags.0', default='-')|list }} {{ users|map(attribute='zz')|list|length }} {{ names|map('upper')|list }} {{ names|map('replace', 'a', 'b')|join(',') }} {{ [1, 2]|map('string')|map('length')|list }} {{ nested|map('length')|list }} {{ nested|map(attribute=0, default=0)|list }} {{ nested|map('join', '-')|list }}",
        "{{ users|map|list }}", "{{ users|map('nope')|list }}", "{{ users|map(attribute='name', x=1)|list }}", "{{ list|select|list }} {{ [0, 1, '', 'a', none]|select|list }} {{ list|select('odd')|list }} {{ list|select('gt', 1)|list }} {{ list|reject('odd')|list }} {{ [0, 1]|reject|list }} {{ list|select('in', [1, 2])|list }}",
        "{{ users|selectattr('ok')|map(attribute='name')|list }} {{ users|rejectattr('ok')|map(attribute='name')|list }} {{ users|selectattr('age', 'gt', 26)|map(attribute='name')|list }} {{ users|selectattr('ok', 'defined')|list|length }} {{ users|rejectattr('ok', 'undefined')|list|length }} {{ users|selectattr('name', 'equalto', 'bob')|first }}",
        "{{ users|selectattr('ok', 'nope')|list }}", "{{ 'yes' if users|selectattr('zz') else 'no' }} {% set g = list|select('odd') %}{{ g|list }} {{ g|list }}", "{{ (users|selectattr('ok'))|length }}", "{{ (users|selectattr('ok'))[0] }}|",
        "{{ messages|selectattr('role', 'equalto', 'user')|list|length }} {{ messages|map(attribute='role')|unique|join(',') }} {{ (messages|last).role }} {{ messages|rejectattr('role', 'in', ['system'])|map(attribute='role')|list }}", "{{ text|attr('upper') is callable }} {{ d|attr('b') }}|",
        "{{ 1 in list|select('odd') }} {{ [1, 2, 3]|select('odd')|sum }} {{ list|map('pow') if no else '' }}",
    ]
    yield "set", [
        "{% set x = 1 %}{{ x }}{% set x = x + 1 %}{{ x }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d2), e = [(3, 4), 5] %}{{ c }}{{ d2 }}{{ e }}{% set f, g = 'xy' %}{{ f }}{{ g }}", "{% set a, b = 1, 2, 3 %}", "{% set a, b = 5 %}",
        "{% set t = 1, 2 %}{{ t }}{% set u = [1] + [2] %}{{ u }}{% set v = () %}{{ v }}", "{% set x %}a {{ n }} b{% endset %}[{{ x }}]", "{% set x | upper | replace('A', 'z') %}abc{% endset %}{{ x }}", "{% set x %}{% endset %}[{{ x }}]",
        "{% set ns = namespace(a=1, b='x') %}{{ ns.a }}{% set ns.a = ns.a + 5 %}{{ ns.a }}{{ ns.b }}{{ ns.zz is defined }}{{ ns['a'] }}", "{% set ns = namespace() %}{% for i in list %}{% set ns.last = i %}{% endfor %}{{ ns.last }}", "{% set ns = namespace({'q': 1}, z=2) %}{{ ns.q }}{{ ns.z }}",
        "{% set d.b = 5 %}", "{% set nope.b = 5 %}", "{% set ns = namespace() %}{% set ns.x %}block{% endset %}{{ ns.x }}", "{% set x = 1 %}{% for i in [1, 2] %}{% set x = i * 10 %}{{ x }} {% endfor %}{{ x }}", "{% if yes %}{% set z = 5 %}{% endif %}{{ z }}",
        "{% for i in [1, 2] %}{{ q }}{% set q = i %}{{ q }};{% endfor %}{{ q }}", "{% set messages = messages[1:] %}{{ messages|length }}", "{% set true = 1 %}", "{% set 5 = 1 %}", "{% set x %}abc", "{% set ns = namespace(f=1) %}{% set g = ns %}{% set g.f = 2 %}{{ ns.f }}", "{% set a, ns2.b = 1, 2 %}",
        "{% set ns = namespace(l=[]) %}{% for i in range(3) %}{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.l }}", "{% set x = 5 if no %}[{{ x }}]", "{% set x = yes and 'a' or 'b' %}{{ x }}",
    ]
    yield "for", [
        "{% for x in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.previtem }}{{ loop.nextitem }}|{% endfor %}", "{% for x in [] %}a{% else %}empty{% endfor %}", "{% for x in list if x > 1 %}{{ x }}{{ loop.index }}{{ loop.length }}{{ loop.last }}{% else %}none{% endfor %}",
        "{% for x in list if x > 5 %}{{ x }}{% else %}none{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{% for c in 'añ😀' %}{{ c }},{% endfor %}", "{% for a, b in [(1, 2), [3, 4]] %}{{ a }}{{ b }}{% endfor %}", "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for x in 5 %}{% endfor %}", "{% for x in none %}{% endfor %}",
        "{% for x in list %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% if x == 2 %}{% break %}{% endif %}{% endfor %}", "{% for x in range(5) %}{% for y in range(x) %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{% endfor %}", "{% break %}", "{% for x in list %}{% else %}{% break %}{% endfor %}", "{% macro m() %}{% break %}{% endmacro %}",
        "{% for x in list %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}{% endfor %}", "{% for x in list %}{% for y in 'ab' %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}", "{% for x in list %}{% set outer = loop %}{% for y in 'ab' %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}", "{% for x in list -%} {{ x }} {%- endfor %}", "{% for i in range(3, 0, -1) %}{{ i }}{% endfor %}", "{% for x in list, d %}{{ x is mapping }}{% endfor %}",
        "{% for x in users|map(attribute='name') %}{{ x }}{{ loop.length }}{{ loop.last }}{% endfor %}", "{% for x in list|reverse %}{{ x }}{{ loop.last }}{% endfor %}", "{% for x in list[::-1] %}{{ x }}{% endfor %}{{ x }}", "{% set ns = namespace(stop=false) %}{% for x in range(6) if not ns.stop %}{{ x }}{% if x == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}", "{% set ns = namespace(stop=false) %}{% for x in range(6) if not ns.stop %}{{ x }}{{ loop.last }}{% if x == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}",
        "{% for x in range(4) if x is odd %}{{ loop.nextitem }}{{ loop.previtem is defined }} {% endfor %}", "{{ range(100001)|length }}", "{{ range(100000)|length }}", "{{ range(1, 2, 0) }}", "{{ range('a') }}", "{% for x in list %}{% endfor x %}", "{% for x in %}{% endfor %}", "{% for x list %}{% endfor %}", "{% for x in list %}", "{% for x in (1, 2) if true %}{{ x }}{% endfor %}",
        "{% for message in messages %}{{ message.role }}:{{ message['content']|trim }}{{ '\n' if not loop.last }}{% endfor %}", "{% for x in [1, 2, 3] %}{{ loop.revindex }}{% if loop.revindex == 2 %}{{ loop.nextitem + 10 }}{% endif %} {% endfor %}", "{% for x in list %}{{ loop.nope }}{{ loop.depth }}{% endfor %}", "{% for x in list %}{% set ns = namespace(v=x) %}{{ ns.v }}{% endfor %}",
    ]
    yield "for with else", [
        "{% for x in list %}{{ x }}{% break %}{% else %}else{% endfor %}", "{% for x in list %}{{ x }}{% continue %}{% else %}else{% endfor %}",
        "{% for x in list %}{{ x }}{% if x == 1 %}{% break %}{% endif %}{% else %}else{% endfor %}", "{{ 'a' % undefined_name }}{{ 'a' % [1] }}{{ 'a' % {} }}",
    ]
    yield "if", [
        "{% if yes %}a{% endif %}{% if no %}b{% else %}c{% endif %}{% if no %}d{% elif yes %}e{% else %}f{% endif %}", "{% if no %}a{% elif no %}b{% elif n == 7 %}c{% endif %}", "{% if yes %}{% if no %}x{% else %}y{% endif %}{% endif %}", "{% if %}{% endif %}", "{% if yes %}", "{% endif %}", "{% if yes %}{% endfor %}", "{% if yes %}{% else %}{% else %}{% endif %}", "{% if undefined_name %}a{% else %}b{% endif %}", "{% if yes: %}a{% endif %}", "{% elif %}", "{% if not d.zz %}none{% endif %}", "{% if messages[0].role == 'system' and messages|length > 1 %}ok{% endif %}",
    ]
    yield "macros", [
        "{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(b=5, a=4) }} {{ m() }}"[:113] + "{% macro m(a, b=2) %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, b=3) }}{{ m() }}{{ m(1, 2)|upper }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}",
        "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}", "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}", "{% macro w() %}<{{ caller() }}>{% endmacro %}{% call w() %}in{{ n }}{% endcall %}", "{% macro w(l) %}{% for x in l %}{{ caller(x, y=2) }}{% endfor %}{% endmacro %}{% call(a, y=1) w(list) %}{{ a }}{{ y }}{% endcall %}", "{% macro w() %}{{ caller }}{% endmacro %}[{{ w() }}]", "{% macro w() %}{{ caller() }}{% endmacro %}[{{ w() }}]", "{% macro w() %}x{% endmacro %}{% call w() %}y{% endcall %}",
        "{% set g = 1 %}{% macro m() %}{{ g }}{% endmacro %}{{ m() }}{% set g = 2 %}{{ m() }}", "{% macro m(x) -%}\n  {{ x }}\n{%- endmacro %}[{{ m('a') }}]", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}", "{% macro m(a=1, b) %}{% endmacro %}", "{% macro m %}{% endmacro %}", "{{ nope() }}", "{{ text() }}", "{{ m.name }}{% macro m() %}{% endmacro %}{{ m.name }}{{ m is callable }}",
        "{% for i in list %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}", "{% macro m(d) %}{% for k, v in d.items() %}{{ k }}:{% if v is mapping %}{ {{- m(v) -}} }{% else %}{{ v }}{% endif %};{% endfor %}{% endmacro %}{{ m({'a': {'b': 1}, 'c': 2}) }}", "{% set ns = namespace(t='') %}{% macro add(x) %}{% set ns.t = ns.t + x %}{% endmacro %}{{ add('a') }}{{ add('b') }}{{ ns.t }}", "{% macro m(*a) %}{% endmacro %}", "{% macro m() %}{{ messages|length }}{% endmacro %}{{ m() }}", "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(*[1]) }}{{ m(**{'x': 2}) }}", "{% macro m(x) %}{% if x %}{% set y = x %}{% endif %}{{ y }}{% endmacro %}{{ m(1) }}|{{ m(0) }}",
        "{% macro m() %}{{ caller(1) if caller else 'none' }}{% endmacro %}{{ m() }}{% call(x) m() %}{{ x }}{% endcall %}", "{% call 5 %}{% endcall %}", "{% macro m(a, b='%s' % 5) %}{{ a }}{{ b }}{% endmacro %}{{ m(a='q') }}",
    ]
    yield "other statements", [
        "{% filter upper %}abc{{ text }}{% endfilter %}", "{% filter trim|replace('a', 'b') %}  aa {% endfilter %}", "{% with %}{% set z = 1 %}{{ z }}{% endwith %}[{{ z }}]", "{% with a=1, b=n %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% set a = 5 %}{% with a=1, b=a %}{{ a }}{{ b }}{% endwith %}", "{% raw %}{{ x }} {% if %} {# #}{% endraw %}", "{% raw -%}  a  {%- endraw %}b", "a  {%- raw %} b {% endraw -%}  c", "{% raw %}", "{% generation %}gen {{ n }}{% set inner = 1 %}{% endgeneration %}[{{ inner }}]", "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{% endif %}{% endfor %}", "{% print 1, 'a' %}", "{% do x %}", "{% include 'x' %}", "{% import 'x' as y %}", "{% from 'x' import y %}", "{% extends 'x' %}", "{% nope %}", "{% %}", "{%", "{{", "{#", "a {# comment #} b{#- c -#} d", "{# {{ x }} {% if %} #}ok", "{{ raise_exception('stop: ' ~ n) }}", "{% if no %}{{ raise_exception('never') }}{% endif %}fine", "{{ raise_exception() }}", "{{ strftime_now('%%') }}", "{{ strftime_now(5) }}",
        "{% for x in list %}{% filter upper %}a{% if x == 1 %}{% break %}{% endif %}b{% endfilter %}{% endfor %}", "{% for x in list %}{% set y %}{{ x }}{% if x == 1 %}{% continue %}{% endif %}{% endset %}{{ y }}{% endfor %}",
    ]
    yield "white space", [
        "  {% if yes %}  \n  a  \n  {% endif %}  \nb", "{% if yes -%}  \n  a  \n  {%- endif %}  \nb", "  {%+ if yes %}\nx{%+ endif +%}\ny", "a\n  {# c #}\nb", "a  {# c #}  \nb", "a\n\n{%- if yes %}\n\nb\n\n{% endif -%}\n\nc", "{{ 1 }}\n{{ 2 }}", "  {{ 1 -}}  \n  {{- 2 }}  ", "a\r\nb\rc\n{% if yes %}\r\nd{% endif %}\n", "x\n", "x\n\n", "\n", "", " ", "\n{% if yes %}\n{% endif %}\n", "\t {% if yes %}\u00a0\n \u00a0{% endif %}x", "{% if yes %}a{% endif %}   {% if yes %}b{% endif %}", "a {%- set x = 1 -%} b {{- x -}} c", "{%-if yes-%}a{%-endif-%}", "{{-1}}{{+2}}{{- -1 }}", "line {# multi\nline #}\n  {% set x = 1 %}\n  {{ x }}", "{% for x in list %}\n  {{ x }}\n{% endfor %}\nend", "{% for x in list %}\n    {%- if x == 1 %}\n        {{- x }}\n    {%- endif %}\n{%- endfor %}", "a\n   {% raw %}  b  {% endraw %}   \nc", "{#- a -#}  b  {#+ c +#}\nd", "   {{ 'x' }}", "{% set x = {'a': {'b': 1}} %}{{ x.a.b }}{{ {'a': {}}}}", "{{ '{{ }} {% %}' }}", "{% if '%}' %}a{% endif %}", "{\n{ {{ '{' }} } }%} %} #} }}", "{% if yes %}\n\n{% endif %}|", "x {%- endraw %}", "a{% if yes -%}\n\n{%+ endif %}\n b",
    ]


def snippets():
    for group, templates in groups():
        for number, template in enumerate(templates):
            yield f"{group} {number}", template
