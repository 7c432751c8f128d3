#!/usr/bin/env python3
"""Every command of every document is run, and where the document shows output, its shape is compared.

usage: documents.py GPUSCOPE FAKE_FOLDER [DOCUMENT...]     (or GROUP: of group_of(); checks: those that run no command)
"""

import glob
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import urllib.request
import xml.etree.ElementTree

import documents_table as table
import documents_text
import harness
from agent_help import Agent, config_text
from documents_world import ROOT, World, row
from harness import Skip, case, main, read_text, wait_until
from head_help import Head, Node

DOCUMENTS = ('README.md', 'SECURITY.md', 'CONTRIBUTING.md', 'doc/*.md', 'doc/guides/*.md', 'doc/internals/*.md', 'packaging/*.md',
             'packaging/*/*.md', 'examples/*.md', 'man/*.[1-8]')  # fmt: skip


def documents():
    return sorted(os.path.relpath(p, ROOT) for pattern in DOCUMENTS for p in glob.glob(os.path.join(ROOT, pattern)))


def blocks_of(document):
    return documents_text.blocks_of(document, read_text(os.path.join(ROOT, document)))


def group_of(document):
    """The test of Meson that runs it (tests/e2e/meson.build): they run side by side."""
    if document.startswith('man/'):
        return 'man-trace' if 'trace' in document else 'man'
    return 'guides' if document.startswith('doc/guides/') else 'doc'


def add(document):
    @case(f'{group_of(document)}: {document}', timeout=900, beside='jobs')
    def run_document(t):
        run = [b for b in blocks_of(document) if documents_text.is_run(b)]
        if all(row(table.NOT_RUN, c.text) for b in run for c in b.commands()):
            return
        with World(t) as world:
            for block in run:
                world.run_block(block)


@case('checks: each block says what it holds', needs=None)
def blocks(t):
    for document in documents():
        for block in blocks_of(document):
            found = documents_text.suspicious(block)
            if found:
                t.fail(f'{document}:{found[0]}: {found[1]!r} looks like a command in a block that is not run: make it ```sh or ```console')


@case('checks: no row of the tables is without a command', needs=None)
def rows(t):
    texts = [c.text for d in documents() for b in blocks_of(d) if documents_text.is_run(b) for c in b.commands()]
    for name in ('NOT_RUN', 'REWRITTEN', 'SERVES', 'WATCHES', 'ENDS', 'PREPARED', 'SETTING'):
        for pattern, *_ in getattr(table, name):
            t.true(f'{name}: {pattern!r} matches a command', any(re.search(pattern, x) for x in texts))
    for pattern, most, reason in table.NOT_RUN:
        found = [x for x in texts if re.search(pattern, x)]
        t.true(f'NOT_RUN: {pattern!r} ({reason}) is of at most {most} commands: run the new one, or count it there', len(found) <= most, found)


WRONG = """# A page
Text.

    gpuscope gpu --no-such-option
    echo out; false
    no-such-program here    # with a comment

```console
$ echo 'one 12 ms'; echo two
one 7.5 us
three
```

- an item of a list

    with a paragraph that is no command

```text
sudo gpuscope top
```
"""


class Noted(list):
    """In place of a test: what it was given as failures."""

    def __init__(self, t):
        super().__init__()
        self.t = t

    def __getattr__(self, name):
        return getattr(self.t, name)

    def fail(self, text):
        self.append(text)


@case('checks: each wrong command is reported, with its document, line and reason', needs=None)
def wrong(t):
    blocks = documents_text.blocks_of('doc/wrong.md', WRONG)
    t.equal('lines of commands', [c.line for b in blocks if documents_text.is_run(b) for c in b.commands()], [4, 5, 6, 9])
    t.equal('a command in a block of text', [documents_text.suspicious(b) for b in blocks if documents_text.suspicious(b)], [(19, 'sudo gpuscope top')])
    with World(t) as world:
        world.t = noted = Noted(t)
        for block in blocks:
            if documents_text.is_run(block):
                world.run_block(block)
        world.t = t
    wanted = (r'^doc/wrong.md:4: gpuscope gpu --no-such-option: exit status 2, not 0: .*no-such-option',
              r'^doc/wrong.md:5: echo out; false: exit status 1, not 0: out$',
              r'^doc/wrong.md:6: no-such-program here .*: exit status 127, not 0: .*not found',
              r"^doc/wrong.md:9: echo .*: line 11 shows 'three', and no line of the output")  # fmt: skip
    t.equal('failures', len(noted), len(wanted))
    for text, pattern in zip(noted, wanted):
        t.match('a failure', pattern, text)


@case('checks: a man page is read as a terminal shows it', needs=None)
def man_reader(t):
    page = '.TH X 1\n.SH EXAMPLES\n.nf\ngpuscope trace \\-\\-op \\(aq*\\(aq \\fB\\-o\\fR x\n.fi\n.\\" promql\n.nf\nup\n.fi\n.SH SEE ALSO\n.nf\nno\n.fi\n'
    blocks = documents_text.blocks_of('man/x.1', page)
    t.equal('blocks', [(b.line, b.language, [line for _, line in b.lines]) for b in blocks],
            [(4, None, ["gpuscope trace --op '*' -o x"]), (8, 'promql', ['up'])])  # fmt: skip


def options_of(t, command, known={}):
    """The options that a command has, by its help; None: there is no such command."""
    if command not in known:
        run = next((r for r in (t.tool(*command.split(), option) for option in ('--help-all', '--help')) if r.status == 0), None)
        known[command] = None if run is None else set(re.findall(r'(?<![\w-])--?[a-z0-9-]+', run.out, re.I))
    return known[command]


@case('checks: commands and options that a text names exist', needs=None)
def named(t):
    for document in documents():
        for line, text in documents_text.spans(document, read_text(os.path.join(ROOT, document))):
            words = text.split(' -- ')[0].split()
            command = words[1].rstrip('.,;:') if len(words) > 1 else ''
            if not re.fullmatch(r'[a-z]+', command) or text in table.NO_COMMAND:
                continue
            options = options_of(t, command)
            if options is None:
                t.fail(f'{document}:{line}: {text!r}: gpuscope has no command {command!r}')
                continue
            for word in re.findall(r'(?<=\s)--[a-z0-9-]+', ' '.join(words)):
                t.true(f'{document}:{line}: {text!r}: {command} has {word}', word in options)


@case('checks: metrics that a text names are in gpuscope-metrics(7)', needs=None)
def named_metrics(t):
    names = listed()
    for document in documents():
        for number, line in enumerate(read_text(os.path.join(ROOT, document)).split('\n'), 1):
            for name in re.findall(r'(?<![\w/.{-])gpuscope_[a-z0-9_]+[a-z0-9](?![\w*.{-])', documents_text.unroff(line)):
                # A count may be named without its ending.
                t.true(f'{document}:{number}: {name} is in gpuscope-metrics(7)', {name, name + '_total', name + '_info'} & set(names) or name in table.NO_METRIC)


def anchors(path):
    """Of its headings, as GitHub makes them."""
    headings = re.findall(r'(?m)^#+ (.*)$', re.sub(r'(?ms)^```.*?^```', '', read_text(path)))
    return {re.sub(r'[^\w\- ]', '', re.sub(r'\[(.*?)\]\(.*?\)', r'\1', h).strip().lower()).replace(' ', '-') for h in headings}


@case('checks: links, manual pages, files and targets of make that a text names exist', needs=None)
def references(t):
    pages = {os.path.basename(p)[:-2] + f'({p[-1]})' for p in man_pages()}
    targets = set(re.findall(r'(?m)^([a-z-]+):', read_text(os.path.join(ROOT, 'Makefile'))))
    for document in documents():
        here = os.path.dirname(os.path.join(ROOT, document))
        text = read_text(os.path.join(ROOT, document))
        for number, line in enumerate(text.split('\n'), 1):
            where = f'{document}:{number}'
            for name in re.findall(r'\bgpuscope(?:-[a-z]+)?\([1-8]\)', re.sub(r' (?=\([1-8]\))', '', documents_text.unroff(line))):
                t.true(f'{where}: there is a page {name}', name in pages)
            if not document.endswith('.md'):
                continue
            for path, anchor in re.findall(r'\]\(([^)#:\s]*)(?:#([^)\s]*))?\)', line):
                target = os.path.normpath(os.path.join(here, path)) if path else os.path.join(ROOT, document)
                t.true(f'{where}: link to {path}: there is such a file', os.path.exists(target))
                if anchor and os.path.isfile(target):
                    t.true(f'{where}: link to {path}#{anchor}: there is such a heading', anchor in anchors(target), sorted(anchors(target))[:40])
            for name in re.findall(r'(?:`|^ {4})make +([a-z][a-z-]*)', line):
                t.true(f'{where}: make has the target {name}', name in targets)
            for path in re.findall(r'(?:`|^ {4})((?:tests|tools|bench|packaging|src|examples|proto|web)/[\w./-]*\w/?)(?=[` ])', line):
                # Or a program: by the name of its source.
                t.true(f'{where}: there is {path}', any(os.path.exists(os.path.join(folder, path + end)) for folder in (ROOT, here) for end in ('', '.c')))


def man_pages():
    return [d for d in documents() if d.startswith('man/')]


@case('checks: man pages: a date, EXAMPLES, no warning of groff and mandoc', needs=None)
def pages(t):
    tools = [w for w in (['groff', '-t', '-man', '-ww', '-Tutf8', '-z'], ['mandoc', '-T', 'lint', '-W', 'warning']) if shutil.which(w[0])]
    if not tools:
        raise Skip('neither groff nor mandoc is installed')
    for page in man_pages():
        text = read_text(os.path.join(ROOT, page))
        t.match(f'{page}: a date in .TH', r'(?m)^\.TH \S+ [1-8] 20[0-9]{2}-[01][0-9]-[0-3][0-9] ', text[:500])
        t.match(f'{page}: EXAMPLES', r'(?m)^\.SH EXAMPLES$', text)
        t.true(f'{page}: its examples have a command or a configuration', blocks_of(page))
        for words in tools:
            done = subprocess.run([*words, os.path.join(ROOT, page)], capture_output=True, text=True, check=False)
            t.equal(f'{page}: warnings of {words[0]}', (done.stdout if words[0] == 'mandoc' else '') + done.stderr, '')


@case('checks: metrics: the page has what the source declares', needs=None)
def metrics_page(t):
    done = subprocess.run([sys.executable, os.path.join(ROOT, 'tools/metrics_page.py'), '--check'], capture_output=True, text=True, check=False)
    t.equal(f'status of tools/metrics_page.py --check ({done.stderr.strip()})', done.returncode, 0)
    with open(t.path('broken'), 'w', encoding='utf-8') as f:
        f.write(read_text(os.path.join(ROOT, 'man/gpuscope-metrics.7')).replace('gpuscope_gpu_power_watts', 'gpuscope_gpu_watts', 1))
    done = subprocess.run([sys.executable, os.path.join(ROOT, 'tools/metrics_page.py'), '--check', t.path('broken')], capture_output=True, text=True, check=False)
    t.equal('its status for a page with another name', done.returncode, 1)


@case('checks: options that stand alone in a text exist in some command', needs=None)
def lone_options(t):
    help_text = t.tool('--help', status=0).out
    commands = re.findall(r'(?m)^  ([a-z]+)  ', help_text)
    t.true('commands in --help', len(commands) > 10, commands)
    known = set().union(*(options_of(t, c) or () for c in [*commands, 'agent ctl']))
    for document in documents():
        if not document.endswith('.md') or document == 'CONTRIBUTING.md':  # of many tools
            continue
        for number, line in enumerate(read_text(os.path.join(ROOT, document)).split('\n'), 1):
            for option in re.findall(r'`(--[a-z0-9-]+)', line):
                t.true(f'{document}:{number}: some command has {option}', option in known or option in table.OPTIONS_OF_OTHERS)


def listed():
    """{name of a metric: type} of the page."""
    text = read_text(os.path.join(ROOT, 'man/gpuscope-metrics.7'))
    return {name: kind.lower() for name, kind in re.findall(r'(?m)^\.TP\n\.B (\S+)\n(Gauge|Counter|Histogram)\. ', text)}


def compare_served(t, what, text):
    """Each family that was served stands in the page, with its type and its sentence."""
    page, known = read_text(os.path.join(ROOT, 'man/gpuscope-metrics.7')), listed()
    types = dict(re.findall(r'(?m)^# TYPE (gpuscope_\w+) (\w+)$', text))
    t.true(f'{what} serves metrics', len(types) > 20, len(types))
    for name, kind in types.items():
        t.equal(f'{what}: type of {name} in gpuscope-metrics(7)', known.get(name), kind)
    for name, sentence in re.findall(r'(?m)^# HELP (gpuscope_\w+) (.*)$', text):
        t.true(f'{what}: sentence of {name} in gpuscope-metrics(7)', sentence.replace('-', '\\-') in page, sentence)


@case('checks: metrics: the page has what an agent and a head serve', needs=None)
def metrics_served(t):
    agent = Agent(t, text=config_text(more='metrics:\n  links: true\n'), what='gpus=2,processes=3,links=2')
    compare_served(t, 'the agent', agent.get()[2].decode())
    agent.stop()
    port = harness.free_port()
    head = Head(t, options=['--http-port', str(port)])
    node = Node(t, head.address, 'node-of-documents')
    wait_until(lambda: head.stored('node-of-documents') > 0, 20, 'a sample in the head')
    with urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics', timeout=60) as answer:
        compare_served(t, 'the head', answer.read().decode())
    node.stop()
    head.stop()


@case('checks: configurations that documents show are taken, and questions to Prometheus are PromQL', needs=None)
def others(t):
    for document in documents():
        for block in blocks_of(document):
            text = '\n'.join(line for _, line in block.lines)
            name = t.path('block')
            if block.language == 'yaml':
                with open(name, 'w', encoding='utf-8') as f:
                    f.write(text + '\n')
                runs = [t.tool(command, '-c', name, '--check-config') for command in ('agent', 'head')]
                t.true(f'{document}:{block.line}: agent or head takes this configuration', any(r.status == 0 for r in runs), [r.err for r in runs])
            elif block.language == 'promql' and shutil.which('promtool'):
                expressions = re.split(r'\n(?=\S)', text)
                with open(name, 'w', encoding='utf-8') as f:
                    json.dump({'groups': [{'name': 'g', 'rules': [{'record': f'r{i}', 'expr': e} for i, e in enumerate(expressions)]}]}, f)
                done = subprocess.run(['promtool', 'check', 'rules', name], capture_output=True, text=True, check=False)
                t.equal(f'{document}:{block.line}: status of promtool ({done.stderr[-300:]})', done.returncode, 0)
                for metric in re.findall(r'gpuscope_\w+', text):
                    t.true(f'{document}:{block.line}: {metric} is in gpuscope-metrics(7)', metric in listed())


@case('pictures: one command makes all of them', timeout=300)
def pictures(t):
    missing = [w for w in ('tmux', 'chromium') if not shutil.which(w)]
    if missing:
        raise Skip(f'{missing[0]} is not installed')
    build = os.path.dirname(os.path.dirname(harness.gpuscope))
    done = subprocess.run([sys.executable, os.path.join(ROOT, 'tools/pictures.py'), '--build', build, t.path('pictures')], capture_output=True,
                          text=True, check=False, env=t.env, timeout=250)  # fmt: skip
    t.equal(f'status of tools/pictures.py ({done.stderr[-500:]})', done.returncode, 0)
    for name, shows in (('summary.svg', 'Verdict'), ('top.svg', 'gpuscope top'), ('flame.svg', 'svg')):
        text = read_text(t.path('pictures', name))
        t.equal(f'{name} is XML of', xml.etree.ElementTree.fromstring(text).tag, '{http://www.w3.org/2000/svg}svg')
        t.true(f'{name} shows {shows!r}', shows in text)
    t.match('the screen', r'(?s)^Verdict: .*Where the time went: ', read_text(t.path('pictures', 'summary.txt')))
    for name in ('page.png', 'run.png'):
        with open(t.path('pictures', name), 'rb') as f:
            head = f.read(24)
        # The first chunk of a PNG is its header: width and height, big endian (PNG specification, 11.2.2).
        t.equal(f'{name}: a PNG 1280 wide', (head[:8], struct.unpack('>I', head[16:20])[0]), (b'\x89PNG\r\n\x1a\n', 1280))


for path in documents():
    add(path)

if __name__ == '__main__':
    main()
