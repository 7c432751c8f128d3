"""Commands as documents have them: out of Markdown and out of the EXAMPLES of man pages, with what is shown below them.

In Markdown, an indented block and a fence of the language `sh` hold commands, one a line; a fence `console` has `$ ` before
each command and below it the output. Any other fence says what it holds (`text`, `yaml`, `ini` ...) and is not run. In the
EXAMPLES of a man page, what stands between .nf and .fi is a block of commands, or of the language that a comment in the line
above .nf names (`.\\" promql`).
"""

import re

# A block that begins with one of these holds commands, whatever its fence says or does not say.
LOOKS_LIKE_COMMAND = re.compile(r'^\s*(?:[\w.-]*[$] |sudo |gpuscope |make(?: |$)|systemctl |srun |sbatch |apt(?:-get)? |curl |docker |kubectl |pip3? )')
PROMPT = re.compile(r'^(?:[\w.-]*\$) ')
LANGUAGES_RUN = ('sh', 'console')
NUMBER = r'[0-9][0-9,.]*'
UNITS = r'(?:ns|us|ms|s|min|h|d|B|KiB|MiB|GiB|TiB|kB|MB|GB|W|J|C|MHz|GHz)'


class Block:
    """One block: lines are (number, text) without indentation."""

    def __init__(self, document, line, language, lines):
        self.document, self.line, self.language, self.lines = document, line, language, lines

    def commands(self):
        return list(commands_of(self))


class Command:
    def __init__(self, document, line, text, shown):
        self.document, self.line, self.text, self.shown = document, line, text, shown

    def __str__(self):
        return f'{self.document}:{self.line}: {self.text}'


def markdown_blocks(document, text):
    lines = text.split('\n')
    blocks, fence, indented, in_list, blank = [], None, None, False, True
    for number, line in enumerate(lines, 1):
        if fence:
            if line.strip().startswith('```'):
                blocks.append(fence)
                fence = None
            else:
                fence.lines.append((number, line[fence.indent:]))
            continue
        opened = re.match(r'^( *)```(\S*)', line)
        if opened:
            fence, indented = Block(document, number, opened[2], []), None
            fence.indent = len(opened[1])
            continue
        if indented and (line.startswith('    ') or not line.strip()):
            if line.strip():
                indented.lines.append((number, line[4:]))
        elif line.startswith('    ') and line.strip() and blank and not in_list:
            indented = Block(document, number, None, [(number, line[4:])])
            blocks.append(indented)
        else:
            indented = None
        if line.strip() and not line.startswith(' '):
            in_list = bool(re.match(r'(?:[-*+]|[0-9]+\.) ', line))
        blank = not line.strip() or line.startswith('#')
    return blocks


def unroff(line):
    """The text of a line of a man page as a terminal shows it."""
    line = re.sub(r'\\f(?:\[[A-Z]*\]|[A-Z])', '', line)
    for escape, text in ((r'\-', '-'), (r'\(aq', "'"), (r'\(dq', '"'), (r'\&', ''), (r'\e', '\\'), (r'\(ti', '~'), (r'\(ha', '^')):
        line = line.replace(escape, text)
    return line


def man_blocks(document, text):
    """Of its EXAMPLES."""
    blocks, block, inside, above = [], None, False, ''
    for number, line in enumerate(text.split('\n'), 1):
        if line.startswith('.SH'):
            inside = 'EXAMPLE' in line
        elif inside and line.startswith('.nf'):
            language = re.match(r'^\.\\" (\S+)$', above)
            # Examples of a library are C; what compiles them is the library's test.
            block = Block(document, number + 1, language[1] if language else 'c' if document.endswith('.3') else None, [])
        elif line.startswith('.fi') and block:
            blocks.append(block)
            block = None
        elif block and not line.startswith(('.PP', '.\\"')):
            block.lines.append((number, unroff(line)))
        elif inside and line.startswith('    ') and line.strip():
            blocks.append(Block(document, number, None, [(number, unroff(line.strip()))]))
        above = line
    return blocks


def blocks_of(document, text):
    return man_blocks(document, text) if re.search(r'\.[1-8]$', document) else markdown_blocks(document, text)


def is_run(block):
    return block.language is None or block.language in LANGUAGES_RUN


def suspicious(block):
    """A line of a block that is not run, which nevertheless looks like a command; None."""
    if is_run(block) or block.language not in ('', 'text'):
        return None
    return next(((n, line) for n, line in block.lines if LOOKS_LIKE_COMMAND.match(line)), None)


def whole(text):
    """Whether the lines so far are a whole command."""
    if text.endswith('\\'):
        return False
    here = re.search(r"<<-?\s*'?(\w+)'?", text)
    if here:
        return re.search(rf'(?m)^\s*{here[1]}$', text.split('\n', 1)[1] if '\n' in text else '') is not None
    bare = re.sub(r"\\.|#.*$", '', text, flags=re.M)
    if bare.count("'") % 2 or bare.count('"') % 2:
        return False
    return len(re.findall(r'(?:^|[;\s])(?:do|then|case)\b', bare)) == len(re.findall(r'(?:^|[;\s])(?:done|fi|esac)\b', bare))


def commands_of(block):
    text, begin, shown = '', 0, None
    command = None
    for number, line in block.lines:
        if block.language == 'console' and not text:
            if not PROMPT.match(line):
                if command is not None:
                    command.shown.append((number, line))
                continue
        if not text:
            if not line.strip() or line.lstrip().startswith('#'):
                continue
            begin = number
        line = PROMPT.sub('', line) if not text else line
        text += ('\n' if text else '') + line
        if whole(text):
            shown = [] if block.language == 'console' else None
            command = Command(block.document, begin, text, shown)
            text = ''
            yield command
    if text:
        yield Command(block.document, begin, text, None)


def shape(line):
    """A regular expression of lines like this one: numbers, their units and the width of columns may differ; `...` is any text."""
    out = []
    for part in re.findall(r'\.\.\.|…|' + NUMBER + rf'(?:\s?{UNITS}\b)?|\s+|[^\s0-9.…]+|.', line.strip()):
        if part in ('...', '…'):
            out.append('.*')
        elif part[0].isdigit():
            out.append(rf'(?:{NUMBER}|-)(?:\s*{UNITS}\b)?')
        elif part.isspace():
            out.append(r'\s+')
        else:
            out.append(re.escape(part))
    return re.compile(r'^\s*' + ''.join(out) + r'\s*$')


def was_kept_waiting(got):
    """Others had the processors for a fifth of the run: its verdict is then another one than on the machine of the document."""
    shares = re.findall(r'(?m)ready, but no CPU was free (\d+) %|^ +([\d.]+) % .*ready, but no CPU was free', got)
    return any(float(a or b) >= 20 for a, b in shares)


def missing_line(shown, got):
    """The first line that a document shows and the output does not have, in this order; None. A line `...` stands for any lines."""
    lines, at, kept = got.split('\n'), 0, was_kept_waiting(got)
    for number, line in shown:
        if line.strip() in ('', '...', '…') or (kept and line.startswith('Verdict: ')):
            continue
        wanted = shape(line)
        found = next((i for i in range(at, len(lines)) if wanted.match(lines[i])), None)
        if found is None:
            return number, line
        at = found + 1
    return None


def spans(document, text):
    """(line, text) of commands of gpuscope that stand in the text: code spans of Markdown, bold of man pages."""
    if document.endswith('.md'):
        fence = False
        for number, line in enumerate(text.split('\n'), 1):
            if line.strip().startswith('```'):
                fence = not fence
            elif not fence and not line.startswith('    '):
                yield from ((number, s) for s in re.findall(r'`(?:sudo )?(gpuscope [^`]+)`', line))
    else:
        for number, line in enumerate(text.split('\n'), 1):
            bold = re.match(r'^\.BR? "?(gpuscope (?:\\[^"]|[^"\\])+)', line)
            if bold:
                yield number, unroff(bold[1])
