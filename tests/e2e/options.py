#!/usr/bin/env python3
"""Command lines: one grammar in all commands, man pages that have the same options as --help, completion."""
import json
import os
import re
import subprocess

import harness
from harness import case, main
from top_help import nvml

MAN = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../man')
PAGES = {'trace': 1, 'report': 1, 'open': 1, 'explain': 1, 'gpu': 1, 'job': 1, 'top': 1, 'agent': 8, 'head': 8, 'connect': 1, 'session': 1, 'probes': 1, 'devices': 8}
ROW = re.compile(r'^  (?:-(.),|   ) --([a-z0-9-]+)(\[?=\S+)?(?:  +|$)(.*)')


def rows(t, command):
    """{name: (letter, argument, help)} of --help."""
    out, last = {}, None
    for line in t.tool(*command.split(), '--help', status=0).out.splitlines():
        row = ROW.match(line)
        if row:
            letter, last, argument, text = row.groups()
            out[last] = [letter, argument or '', text]
        elif last and line.startswith(' ' * 30):
            out[last][2] = (out[last][2] + ' ' + line.strip()).strip()
        else:
            last = None
    return out


def man_options(command):
    """{name: argument} of the tags of a man page, with the letters in a second dictionary."""
    options, letters = {}, {}
    text = open(f'{MAN}/gpuscope-{command}.{PAGES[command]}').read()
    for tag in re.findall(r'(?m)^\.T[PQ]\n(\..*|\\fB.*)$', text):
        line = re.sub(r'\\f[A-Z]|"|^\.\w+ ', '', tag).replace('\\-', '-').replace(' ', '')
        names = re.findall(r'--([a-z0-9-]+)(\[?=[^,]*(?:,(?!-)[^,]*)*)?', line)
        options.update((name, argument) for name, argument in names)
        letter = re.match(r'-(.),--', line)
        if letter and names:
            letters[names[0][0]] = letter[1]
    return options, letters


@case('man pages have the options of --help, with the same letters and arguments', needs=None)
def man_pages(t):
    for command in PAGES:
        helped, (page, letters) = rows(t, command), man_options(command)
        t.true(f'{command} has options', len(helped) > 3, helped)
        t.equal(f'{command}: options', sorted(page), sorted(helped))
        for name, (letter, argument, _) in helped.items():
            t.equal(f'{command} --{name}: letter', letters.get(name), letter)
            t.equal(f'{command} --{name}: argument', page.get(name), argument)


@case('a letter and a name mean one thing in all commands; help is short and begins lower case', needs=None)
def one_meaning(t):
    names, arguments = {}, {}
    for command in [*PAGES, 'agent ctl']:
        for name, (letter, argument, text) in rows(t, command).items():
            if letter:
                t.equal(f'-{letter} of {command}', names.setdefault(letter, name), name)
            if name in ('interval', 'duration', 'config', 'commands', 'nvml', 'user', 'pid', 'id', 'ca', 'cert', 'key', 'token-file', 'head', 'width'):
                t.equal(f'--{name} of {command}', arguments.setdefault(name, argument), argument)
            t.true(f'{command} --{name}: {text}', text and len(text) <= 60 and not text.endswith('.'), len(text))
            t.true(f'{command} --{name} begins lower case: {text}', not re.match('[A-Z][a-z]', text) or text.split()[0] in ('Python', 'PyTorch', 'Slurm'))
    t.equal('one letter', names.get('a'), 'all-processes')


# Of each command: where its man page has its sub-commands, and a wrong line that is only judged when the sub-command is known.
SUBCOMMANDS = {
    'session': ('COMMANDS', ('--format', 'xml'), r'session \w+ |--format|which session'),
    'devices': ('DESCRIPTION', ('nonsense',), '"nonsense" is not a process id'),
    'agent ctl': ('CONTROL', ('--for', '2s'), '--for belongs|trace-gpu needs a process id'),
}


def subcommands(t, command):
    """{name: help} of the commands of --help."""
    out, last = {}, None
    for line in t.tool(*command.split(), '--help', status=0).out.split(' Commands:\n')[1].split('\n\n')[0].splitlines():
        if line[2] != ' ':
            last = line.split()[0]
            out[last] = line[30:] if line[28:30] == '  ' else ''
        else:
            out[last] = (out[last] + ' ' + line.strip()).strip()
    return out


@case('sub-commands: those of --help are the ones that exist, and the man page has them', needs=None)
def sub_commands(t):
    for command, (heading, wrong, says) in SUBCOMMANDS.items():
        helped = subcommands(t, command)
        t.true(f'{command} has sub-commands', len(helped) >= 3, helped)
        for name, text in helped.items():
            t.match(f'{command} {name} is known', says, t.tool(*command.split(), name, *wrong, status=2).err)
            t.true(f'{command} {name}: {text}', 0 < len(text) <= 60 and not text.endswith('.') and not re.match('[A-Z][a-z]', text), text)
        listed = t.tool(*command.split(), 'nonsense', status=2).err
        t.match(f'{command}: those of the message', ', '.join([*helped][:-1]) + f' or {[*helped][-1]}', listed)
        page = open(f'{MAN}/gpuscope-{command.split()[0]}.{PAGES[command.split()[0]]}').read()
        section = re.search(rf'(?ms)^\.SH {heading}$(.*?)^\.S[HS] ', page)[1]
        tags = [re.sub(r'\\f[A-Z]|["\\]', '', tag) for tag in re.findall(r'(?m)^\.TP\n\.B[RI]? (.*)$', section)]
        t.equal(f'{command}: man page', [name for tag in tags for name in re.findall(r'(?:^|, +)([a-z-]+)', tag)], [*helped])


@case('wrong options: one line that says what is taken, or what was meant', needs=None)
def wrong(t):
    for words, says in (
        ('trace --duratoin 3 -a', r'gpuscope trace: no option "--duratoin"; did you mean --duration\?'),
        ('head --keep 7d', r'no option "--keep"; .gpuscope head --help. lists them'),
        ('gpu --com x', r'"--com" may be --compat, --commands'),
        ('gpu -z', r'no option "-z"; .gpuscope gpu --help. lists them'),
        ('gpu --josn', r'no option "--josn"; did you mean --json\?'),
        ('gpu --xyz', r'no option "--xyz"; .gpuscope gpu --help. lists them'),
        ('gpu --devices=3', r'--devices takes no argument'),
        ('gpu --format', r'--format takes table, json, csv or yaml'),
        ('gpu --format xml', r'--format takes table, json, csv or yaml, not "xml"'),
        ('gpu --watch 1ms', r'--watch takes a time from 10ms to 24h, such as 2 \(seconds\) or 500ms, not "1ms"'),
        ('top --interval soon', r'--interval takes a time from 50ms to 1h, such as 2 \(seconds\) or 500ms, not "soon"'),
        ('connect --memory-max 1K h:1', r'--memory-max takes a size of at least 64K, such as 256M, not "1K"'),
        ('gpu -n 0', r'--count takes a number of at least 1, not "0"'),
        ('gpu -n 4294967297', r'--count takes a number of at least 1, not "4294967297"'),
        ('trace --top -1 -a', r'--top takes a number up to 99999, not "-1"'),
        ('trace --layer cuda,gpu -a', r'--layer takes one or more of cuda, .*python or user, not "cuda,gpu"'),
        ('trace --layer , -a', r'--layer takes one or more of cuda'),
        ('connect --cert x h:1', r'--cert and --key go together'),
        ('session --all=x stop', r'--all takes no argument'),
        ('top now', r'unexpected argument "now"; only options are accepted'),
    ):  # fmt: skip
        run = t.tool(*words.split(), status=2)
        t.match(words, says, run.err)
        t.equal(f'{words}: lines', len(run.err.strip().splitlines()), 1)


@case('--json is --format=json in every command that has one', needs=None)
def json_option(t):
    for command in PAGES:
        helped = rows(t, command)
        t.equal(command, 'json' in helped, 'format' in helped)
    for words in (['probes', nvml()], ['devices', str(os.getpid())], ['gpu', '--nvml', nvml(), '--devices']):
        alias, whole = (json.loads(t.tool(*words, option).out) for option in ('--json', '--format=json'))
        t.equal(words[0], list(alias), list(whole))
    t.match('of two the last one', r'^ +gpu +util', t.tool('gpu', '--json', '--format=table', '--nvml', nvml()).out)


@case('each JSON document begins with its version', needs=None)
def versions(t):
    for words in ('gpu', 'gpu --devices', 'gpu --compat gswarm', 'top --once', f'probes {nvml()}', f'devices {os.getpid()}', f'job -p {os.getpid()} -d 1'):
        library = ['--nvml', nvml()] if words.split()[0] in ('gpu', 'top', 'job') else []
        out = t.tool(*words.split(), *library, '--json').out
        t.match(words, r'^\{\s*"version": ?1,', out)
        json.loads(out)


@case('gpu --dmon and --pmon repeat into a pipe, as those of nvidia-smi do, and --help says so; -n ends them', needs=None)
def monitors(t):
    text = ' '.join(t.tool('gpu', '--help', status=0).out.split())
    t.match('the help', r'--dmon and --pmon repeat until interrupted, also into a pipe.*; -n 1 prints once', text)
    for option in ('--dmon', '--pmon'):
        env = {'FAKE_NVML': 'gpus=1'}
        once = [line for line in t.tool('gpu', option, '-n', '1', '--nvml', nvml(), env=env, status=0).out.splitlines() if not line.startswith('#')]
        t.equal(f'{option} -n 1', len(once), 1)
        proc = subprocess.Popen([harness.gpuscope, 'gpu', option, '-w', '0.05', '--nvml', nvml()], stdout=subprocess.PIPE, env=t.envs(env))
        n = 0
        while n < 3:  # it would end the test's time if it did not
            line = proc.stdout.readline()
            assert line, f'{option} ended after {n} lines'
            n += not line.startswith(b'#')
        proc.kill()
        proc.communicate()


@case('options may be shortened, joined, and follow words', needs=None)
def forms(t):
    for words in ('probes /bin/true --form json', 'probes --format=json /bin/true', 'probes --usdt --format json -- /bin/true'):
        run = t.tool(*words.split())
        t.true(words, run.status != 2, run.err)
    t.match('joined letters', r'no process has the id|not permitted', t.tool('trace', '-qvp', '4194304', status=4).err)


def complete(t, script, *words):
    code = f'source {script}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _gpuscope; printf "%s\\n" "${{COMPREPLY[@]}}"'
    return subprocess.run(['bash', '-c', code, 'bash', *words], capture_output=True, text=True, check=True).stdout.split()


@case('completion: bash completes commands, options and words; zsh and fish read theirs', needs=None)
def completion(t):
    for shell in 'bash', 'zsh', 'fish':
        script = t.path(shell)
        with open(script, 'w') as f:
            f.write(t.tool('completion', shell, status=0).out)
        subprocess.run([shell, '-n', script], check=True)
    bash = t.path('bash')
    t.equal('a command', complete(t, bash, 'gpuscope', 'tr'), ['trace'])
    t.equal('an option', complete(t, bash, 'gpuscope', 'trace', '--disable-f'), ['--disable-feature'])
    t.equal('words', complete(t, bash, 'gpuscope', 'trace', '--layer', 'cuda-'), ['cuda-runtime', 'cuda-driver'])
    t.equal('behind =', complete(t, bash, 'gpuscope', 'top', '--theme', '=', 'd'), ['dark'])
    for command in SUBCOMMANDS:
        names, typed = [*subcommands(t, command)], ['gpuscope', *command.split()]
        t.equal(f'{command}: sub-commands', complete(t, bash, *typed, ''), names)
        t.equal(f'{command}: none after one', complete(t, bash, *typed, names[0], ''), [])
        t.equal(f'{command} {names[0]}: options', '--help' in complete(t, bash, *typed, names[0], '--h'), True)
    t.equal('a sub-command of its own', complete(t, bash, 'gpuscope', 'agent', ''), ['ctl'])
    t.equal('its options', complete(t, bash, 'gpuscope', 'agent', 'ctl', '--f'), ['--for'])
    t.equal('of a letter', complete(t, bash, 'gpuscope', 'job', '-p', '1'), [])
    for command in PAGES:
        t.equal(command, sorted(complete(t, bash, 'gpuscope', command, '--')), sorted(f'--{name}' for name in rows(t, command)))
    fish = subprocess.run(['fish', '-c', f'source {t.path("fish")}; complete -C "gpuscope top --theme "'], capture_output=True, text=True,
                          check=True, env={**os.environ, 'HOME': t.tmp}).stdout.splitlines()  # fmt: skip
    t.equal('fish', sorted(line.split('\t')[0] for line in fish), ['dark', 'light', 'mono'])
    fish = subprocess.run(['fish', '-c', f'source {t.path("fish")}; complete -C "gpuscope session "'], capture_output=True, text=True,
                          check=True, env={**os.environ, 'HOME': t.tmp}).stdout.splitlines()  # fmt: skip
    t.equal('fish: sub-commands', sorted(line.split('\t')[0] for line in fish), sorted(subcommands(t, 'session')))
    t.match('another shell', 'takes bash, zsh or fish, not "csh"', t.tool('completion', 'csh', status=2).err)


if __name__ == '__main__':
    main()
