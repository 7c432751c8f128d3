#!/usr/bin/env python3
"""Command lines: one grammar in all commands, man pages that have the same options as --help, completion."""
import glob
import json
import os
import re
import subprocess

import harness
from cluster_help import Head
from harness import Live, case, main
from top_help import nvml

MAN = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../man')
PAGES = {'trace': 1, 'report': 1, 'open': 1, 'explain': 1, 'gpu': 1, 'job': 1, 'top': 1, 'agent': 8, 'head': 8, 'connect': 1, 'session': 1, 'probes': 1, 'devices': 8, 'doctor': 1}
ROW = re.compile(r'^  (?:-(.),|   ) --([a-z0-9-]+)(\[?=\S+)?(?:  +|$)(.*)')


def rows(t, command):
    """{name: (letter, argument, help)} of --help-all."""
    out, last = {}, None
    for line in t.tool(*command.split(), '--help-all', status=0).out.splitlines():
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


@case('man pages have the options of --help-all, with the same letters and arguments', needs=None)
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
    t.equal('letters', {names[letter]: letter for letter in 'acdfgijnopquv'},
            {'all-processes': 'a', 'config': 'c', 'duration': 'd', 'follow': 'f', 'gpu': 'g', 'interval': 'i', 'job-id': 'j', 'count': 'n',
             'output': 'o', 'pid': 'p', 'quiet': 'q', 'user': 'u', 'verbose': 'v'})  # fmt: skip


# Of options whose argument is not the same everywhere, with the reason.
OTHER_ARGUMENTS = {'job-id': 'job takes several', 'compat': 'gpu and session take one name, the agent several'}


@case('table of commands and options: a name has one letter and one argument, -v is everywhere, times take seconds or a unit', needs=None)
def table(t):
    table = {command: rows(t, command) for command in [*PAGES, 'agent ctl']}
    shapes = {}
    for command, options in table.items():
        for name in ('help', 'help-all', 'version', 'verbose', 'log-level', 'log-topic'):
            t.true(f'{command} has --{name}', name in options, sorted(options))
        t.equal(f'{command}: --commands and --no-args', 'commands' in options, 'no-args' in options)
        t.equal(f'{command}: options of TLS', len({'ca', 'cert', 'key', 'token-file'} & set(options)) in (0, 4) or command == 'head', True)
        for name, (letter, argument, _) in options.items():
            shape = shapes.setdefault(name, (letter, argument, command))
            t.equal(f'--{name} of {command} and {shape[2]}: letter', letter, shape[0])
            if name not in OTHER_ARGUMENTS:
                t.equal(f'--{name} of {command} and {shape[2]}: argument', argument, shape[1])
            t.true(f'{command} --{name}: a list is A[,A]', ',...' not in argument, argument)
            if argument != '=TIME' or name == 'retention':
                continue
            # What follows is what is refused, so both were taken.
            words = [f'--{name}=90', f'--{name}=1500ms', f'--{name}=2m', f'--{name}=1h', '--no-such-option']
            t.match(f'{command} --{name} TIME', 'no option "--no-such-option"', t.tool(*command.split(), *words, status=2).err)
            t.match(f'{command} --{name} soon', f'--{name} takes .*not "soon"', t.tool(*command.split(), f'--{name}=soon', status=2).err)


@case('head --retention takes days, too, and no number without a unit: 7 could be meant as days, and deletes', needs=None)
def retention(t):
    for age in ('1500ms', '2h', '7d', 'forever'):
        t.tool('head', '--config', '/dev/null', '--check-config', '--retention', age, status=0)
    t.match('no time', 'retention takes a time such as 12h or 7d, or forever, not "soon"', t.tool('head', '--config', '/dev/null', '--check-config', '--retention', 'soon', status=2).err)
    t.tool('head', '--config', '/dev/null', '--check-config', '--retention', '7', status=2)


@case('--help has 25 lines at most, of what --help-all has; -h is the same', needs=None)
def short_help(t):
    for command in [*PAGES, 'agent ctl', 'version', 'completion', '']:
        short, all_of_it = (t.tool(*command.split(), option, status=0).out.splitlines() for option in ('--help', '--help-all'))
        t.true(f'{command}: {len(short)} lines', len(short) <= 25, short)
        t.equal(f'{command} -h', t.tool(*command.split(), '-h', status=0).out.splitlines(), short)
        brief = [line for line in short if ROW.match(line)]
        t.true(f'{command} has options in short', not command or len(brief) >= 2, short)
        t.equal(f'{command}: of --help-all', [line for line in brief if line not in all_of_it], [])
        if brief and 'help-all' not in ' '.join(brief):
            t.match(f'{command}: where the rest is', rf'^All options: `gpuscope {command} --help-all`. Manual: `gpuscope help {command.split()[0]}', short[-1])


@case('help COMMAND shows the man page, or all options where man is missing', needs=None)
def manual(t):
    for command in PAGES:
        text = re.sub('.\b', '', t.tool('help', command, status=0).out)
        t.match(command, rf'(?i)gpuscope.{command}\({PAGES[command]}\)', text)
        t.match(f'{command}: sections', r'(?m)^EXIT STATUS', text)
    t.equal('without man', t.tool('help', 'gpu', status=0, env={'PATH': '/nonexistent'}).out, t.tool('gpu', '--help-all', status=0).out)
    t.equal('no page', t.tool('help', 'version', status=0).out, t.tool('version', '--help-all', status=0).out)
    t.match('no command', 'no command or topic "gpuu"; did you mean "gpu"', t.tool('help', 'gpuu', status=2).err)
    for topic, title in (('quickstart', r'gpuscope.quickstart\(7\)'), ('metrics', r'gpuscope.metrics\(7\)'), ('alerts', r'gpuscope.alerts\(5\)'), ('libgpuscope', r'libgpuscope\(3\)')):
        t.match(topic, f'(?i){title}', re.sub('.\b', '', t.tool('help', topic, status=0).out))
    t.match('a topic without man', 'cannot be shown: is man', t.tool('help', 'metrics', status=3, env={'PATH': '/nonexistent'}).err)


@case('version: the program, its build and the kernel', needs=None)
def version(t):
    line, *details = t.tool('version', status=0).out.splitlines()
    t.equal('the first line', line, t.tool('--version', status=0).out.strip())
    of_kernel = json.loads(t.tool('version', '--json', status=0).out)
    t.equal('the kernel', of_kernel['kernel']['release'], os.uname().release)
    t.equal('its build', of_kernel['kernel']['build'], os.uname().version)
    t.equal('BTF', of_kernel['kernel']['btf'], os.path.exists('/sys/kernel/btf/vmlinux'))
    t.equal('the program', f'gpuscope {of_kernel["gpuscope_version"]}', line)
    t.match('in words', re.escape(os.uname().release), '\n'.join(details))


@case('environment: what is no address or too long is wrong usage; trace needs no head for it', needs=None)
def environment(t):
    for words in ('session list', 'connect', 'report --compare'):
        t.match(words, 'GPUSCOPE_HEAD takes the address of a head.*not "here"', t.tool(*words.split(), status=2, env={'GPUSCOPE_HEAD': 'here'}).err)
    t.match('no head', 'or set GPUSCOPE_HEAD', t.tool('connect', status=2, env={'GPUSCOPE_HEAD': ''}).err)
    t.match('certificates go together', '--cert and --key go together', t.tool('session', 'list', status=2, env={'GPUSCOPE_CERT': 'x'}).err)
    t.match('given without a head', 'these options need --head', t.tool('job', '--ca', 'x', status=2).err)
    t.equal('not of the environment', t.tool('job', '-j', '4194303', '-d', '1', env={'GPUSCOPE_CA': '/nonexistent'}).status, t.tool('job', '-j', '4194303', '-d', '1').status)
    t.match('a token', 'GPUSCOPE_TOKEN: longer than', t.tool('session', 'list', env={'GPUSCOPE_TOKEN': 'x' * 600}, status=1).err)


@case('environment: the head and its token', needs=None)
def environment_of_head(t):
    secret = {'node': 'n' * 20, 'read': 'r' * 20, 'wrong': 'w' * 20}
    for name, text in (('tokens', f'node {secret["node"]}\nread {secret["read"]}\n'), ('read', secret['read'] + '\n')):
        with open(t.path(name), 'w') as f:
            f.write(text)
        os.chmod(t.path(name), 0o600)
    with open(t.path('head.yaml'), 'w') as f:
        f.write('nodes:\n  control_socket: none\n')  # else root needs no token on this machine
    head = Head(t, '--http-port', '0', '--token-file', t.path('tokens'), '--config', t.path('head.yaml'))
    here = {'GPUSCOPE_HEAD': head.address}
    t.match('without a token', 'requires a token', t.tool('session', 'list', status=3, env=here).err)
    for more, status in (
        ({'GPUSCOPE_TOKEN': secret['read']}, 0), ({'GPUSCOPE_TOKEN': secret['wrong']}, 3), ({'GPUSCOPE_TOKEN_FILE': t.path('read')}, 0),
        ({'GPUSCOPE_TOKEN': secret['wrong'], 'GPUSCOPE_TOKEN_FILE': t.path('read')}, 0),
    ):  # fmt: skip
        t.equal(f'{more}', t.tool('session', 'list', env={**here, **more}).status, status)
    away = {'GPUSCOPE_HEAD': '127.0.0.1:1', 'GPUSCOPE_TOKEN': secret['wrong']}
    t.equal('options come first', head.session('list', '--token-file', t.path('read'), env=away).status, 0)
    node = Live(t, lambda _: [harness.gpuscope, 'connect', '--nvml', nvml(), '--machine-id', 'env'], env=t.envs({**here, 'GPUSCOPE_TOKEN': secret['node']}))
    node.wait_err('connected to the head')
    with open(f'/proc/{node.proc.pid}/cmdline') as f:
        t.true('no token on a command line', secret['node'] not in f.read())
    children = [pid for path in glob.glob(f'/proc/{node.proc.pid}/task/*/children') for pid in open(path).read().split()]
    t.true('it has processes without rights', children, children)
    for pid in children:
        for name in ('cmdline', 'environ'):
            with open(f'/proc/{pid}/{name}') as f:
                t.true(f'{name} of process {pid}', secret['node'] not in f.read())
    node.interrupt()
    node.finish()
    head.stop()


@case('did you mean: options, words of options, fields, commands, sub-commands', needs=None)
def meant(t):
    for words, name in (
        ('trace --duratoin 3', '--duration'), ('trace --layer cuda,tourch -a', '"torch"'), ('trace --inside=ncl -- true', '"nccl"'),
        ('gpu --fields utilisation_ratio', '"utilization_ratio"'), ('gpu --format jsn', '"json"'), ('top --theme drak', '"dark"'),
        ('trace --log-topic atach -a', '"attach"'), ('trace --log-level wanring -a', '"warning"'), ('prboes x', '"probes"'),
        ('trace --func cudaLanchKernel -- true', '"cudaLaunchKernel"'), ('trace --func cudaMemcpy*,ncclAllReduc -- true', '"ncclAllReduce"'),
        ('trace --func cudaLaunch --layer cuda-runtime -- true', '"cudaLaunchKernel"'), ('trace --python-at launhc -- true', '"launch"'),
        ('trace --stacks native,at=launch+cpoy -- true', '"copy"'), ('trace --stacks nativ -- true', '"native"'), ('trace --by stream --stream-limits proceses=3 -- true', '"processes"'),
        ('job --set change.min_chnge=5% -d 1', '"change.min_change"'), ('explain --set chnge.min_chnge=5% x.gst', '"change.min_change"'), ('gpu --fields temprature', '"temperature_celsius"'),
        ('agent --print-schema=eacg', '"eacgm"'), ('completion bsh', '"bash"'), ('help quikstart', '"quickstart"'), ('help metric', '"metrics"'),
        ('job --filter sced', '"sched"'), ('job --filter io,nett', '"net"'), ('session strat', '"start"'), ('agent ctl statsu', '"status"'), ('devices grnat 1', '"grant"'), ('help tpo', '"top"'),
    ):  # fmt: skip
        run = t.tool(*words.split(), status=2)
        t.match(words, f'did you mean ({name})\\?', run.err)
        t.equal(f'{words}: lines', len(run.err.splitlines()), 1)


@case('names that are near none: where they are listed, and the lists', needs=None)
def listed(t):
    for words, says in (
        ('trace --func zzzz -- true', 'no function "zzzz": `gpuscope trace --list` shows all names'), ('trace --func zz* -- true', 'no function matches --func zz*: `gpuscope trace --list` shows all names'),
        ('trace --layer nccl --func cudaMalloc -- true', 'cudaMalloc is a function of another layer: add --layer cuda-runtime'),
        ('job --set zzzz.zz=1 -d 1', 'no option "zzzz.zz" of a detector: `gpuscope explain --set help` lists them'), ('gpu --fields zzzz', 'no field "zzzz": --fields help lists them'),
        ('help zzzz', 'no command or topic "zzzz": `gpuscope --help` lists them'), ('zzzz', 'no command "zzzz"; `gpuscope --help` lists them'),
    ):  # fmt: skip
        run = t.tool(*words.split(), status=2)
        t.equal(words, (run.out, len(run.err.splitlines()), says in run.err), ('', 1, True))
    run = t.tool('trace', '--list', '--func', 'cudaLanchKernel', status=4)
    t.match('a list of nothing', '^gpuscope: no function "cudaLanchKernel"; did you mean "cudaLaunchKernel"\\?', run.err)
    t.true('a list', len(t.tool('trace', '--list', '--func', 'cudaLaunchKernel', status=0).out.splitlines()) == 1)
    settings = t.tool('explain', '--set', 'help', status=0).out
    t.equal('the same for jobs', t.tool('job', '--set', 'help', status=0).out, settings)
    page = open(f'{MAN}/gpuscope-explain.1').read()
    for line in settings.splitlines():
        key, preset, text = line.split(maxsplit=2)
        t.match(line, r'^\w+\.\w+$', key)
        t.true(f'{key} is in the manual', key.split('.')[1] in page)
        t.equal(f'{key}={preset} is taken', 'no recording given' in t.tool('explain', '--set', f'{key}={preset}', status=2).err, True)


# Of each command: where its man page has its sub-commands, and a wrong line that is only judged when the sub-command is known.
SUBCOMMANDS = {
    'session': ('COMMANDS', ('--format', 'xml'), r'session \w+ |--format|which session'),
    'devices': ('DESCRIPTION', ('nonsense',), '"nonsense" is not a process id'),
    'agent ctl': ('CONTROL', ('--duration', '2s'), '--duration belongs|trace-gpu needs a process id'),
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
        ('head --longest 7d', r'no option "--longest"; .gpuscope head --help. lists them'),
        ('gpu --com x', r'"--com" may be --compat, --commands'),
        ('gpu -z', r'no option "-z"; .gpuscope gpu --help. lists them'),
        ('gpu --josn', r'no option "--josn"; did you mean --json\?'),
        ('gpu --xyz', r'no option "--xyz"; .gpuscope gpu --help. lists them'),
        ('gpu --devices=3', r'--devices takes no argument'),
        ('gpu --format', r'--format takes table, json, csv or yaml'),
        ('gpu --format xml', r'--format takes table, json, csv or yaml, not "xml"'),
        ('gpu --interval 1ms', r'--interval takes a time from 10ms to 24h, such as 2 \(seconds\) or 500ms, not "1ms"'),
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
    text = ' '.join(t.tool('gpu', '--help-all', status=0).out.split())
    t.match('the help', r'--dmon and --pmon repeat until interrupted, also into a pipe.*; -n 1 prints once', text)
    for option in ('--dmon', '--pmon'):
        env = {'FAKE_NVML': 'gpus=1'}
        once = [line for line in t.tool('gpu', option, '-n', '1', '--nvml', nvml(), env=env, status=0).out.splitlines() if not line.startswith('#')]
        t.equal(f'{option} -n 1', len(once), 1)
        proc = subprocess.Popen([harness.gpuscope, 'gpu', option, '-i', '0.05', '--nvml', nvml()], stdout=subprocess.PIPE, env=t.envs(env))
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
    t.equal('its options', complete(t, bash, 'gpuscope', 'agent', 'ctl', '--d'), ['--duration'])
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
