#!/usr/bin/env python3
"""Are the recipes of CONTRIBUTING.md ("How to add") true? tests/recipes has each as a patch: what a contributor
writes by it. The patches are applied to a copy of the tree, all together, and built from a copy of
the plain build folder (`make tests` first); then the tests that they name must pass which fail without them.

A patch is `git diff` with some lines before it:

    Recipe: the first cell of its row in CONTRIBUTING.md
    Build: targets of ninja
    Test: a command of bash in the build folder ($PYTHON: the interpreter of the tests); several: each

It touches nothing that its row does not name: a file, or what is below a folder. The copy is mounted over this
folder for the build alone, since compile commands have paths of it in them.

usage: recipes.py [--build] [NAME...]    --build: leaves the built copy for the next call
"""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TREE = ROOT / 'build-recipes'
PYTHON = '/usr/bin/python3' if os.path.exists('/usr/bin/python3') else sys.executable
SECONDS_MAX = 3600
LINES_MAX = 25  # shown of a command that failed


class Wrong(Exception):
    pass


def row_of(recipe):
    """The files and folders that a recipe's row names."""
    for line in (ROOT / 'CONTRIBUTING.md').read_text().splitlines():
        cells = [c.strip() for c in line.split('|')]
        if len(cells) == 5 and cells[1] == recipe:
            return [p.rstrip('/') for p in re.findall(r'`([\w./-]+)`', cells[2] + cells[3])]
    raise Wrong(f'CONTRIBUTING.md has no row "{recipe}"')


class Recipe:
    def __init__(self, path):
        self.name, self.path = path.stem, path
        head = path.read_text().split('\ndiff --git ')[0]
        values = {key: re.findall(rf'(?m)^{key}: (.*)$', head) for key in ('Recipe', 'Build', 'Test')}
        if not all(values.values()):
            raise Wrong(f'{path.name} has no "Recipe:", "Build:" or "Test:" line before its first "diff --git"')
        self.recipe, self.tests = values['Recipe'][0], values['Test']
        self.targets = ' '.join(values['Build']).split()

    def check_row(self):
        named = row_of(self.recipe)
        touched = subprocess.run(['git', 'apply', '--numstat', self.path], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for line in touched.splitlines():
            file = line.split('\t')[2]
            if not any(file == n or file.startswith(n + '/') for n in named):
                raise Wrong(f'it needs {file}, which its row in CONTRIBUTING.md does not name')

    def apply(self):
        # Outside of a repository git applies to files as they are.
        r = subprocess.run(['git', 'apply', '-C1', '--whitespace=nowarn', self.path], cwd=TREE, capture_output=True, text=True,
                           env={**os.environ, 'GIT_CEILING_DIRECTORIES': str(ROOT)})  # fmt: skip
        if r.returncode:
            raise Wrong(f'its patch does not apply any more; write tests/recipes/{self.path.name} again:\n{r.stderr}')


def run(command, mounted=False):
    """(exit status, what it said): in the plain tree, or with the copy mounted in its place."""
    command = f'cd {ROOT}/build && {command}'
    if mounted:
        enter = ['unshare', '-m'] if os.geteuid() == 0 else ['unshare', '-rm']
        words = [*enter, 'bash', '-c', 'mount --bind "$1" "$2" && cd / && eval "$3"', '_', str(TREE), str(ROOT), command]
    else:
        words = ['bash', '-c', command]
    try:
        r = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace', timeout=SECONDS_MAX,
                           env={**os.environ, 'PYTHON': PYTHON})  # fmt: skip
    except subprocess.TimeoutExpired:
        return 124, f'not done after {SECONDS_MAX} s'
    return r.returncode, '\n'.join(r.stdout.splitlines()[-LINES_MAX:])


def source_files():
    files = subprocess.run(['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard'], cwd=ROOT, capture_output=True, check=True)
    return sorted(n for n in set(files.stdout.split(b'\0')) if n and os.path.lexists(os.path.join(os.fsencode(ROOT), n)))


def state_of(files, names):
    """Another text when a file has changed."""
    seen = hashlib.sha256(repr(names).encode())
    for name in files:
        s = os.lstat(os.path.join(os.fsencode(ROOT), name))
        seen.update(b'%s %d %d\n' % (name, s.st_mtime_ns, s.st_size))
    return seen.hexdigest()


def copy_tree(files):
    """Tracked and new files with their times, and the build folder: ninja makes what the patches change."""
    shutil.rmtree(TREE, ignore_errors=True)
    TREE.mkdir()
    subprocess.run(['xargs', '-0', 'cp', '-a', '--parents', '-t', str(TREE)], input=b'\0'.join(files), cwd=ROOT, check=True)
    subprocess.run(['cp', '-a', 'build', str(TREE)], cwd=ROOT, check=True)


def read_recipes(names, failures, is_built):
    """Those that are in the tree, applied."""
    found = []
    for path in sorted((ROOT / 'tests/recipes').glob('*.patch')):
        if names and path.stem not in names:
            continue
        try:
            recipe = Recipe(path)
            recipe.check_row()
            if not is_built:
                recipe.apply()
            found.append(recipe)
        except Wrong as e:
            failures.append(f'{path.stem}: {e}')
    return found


def try_recipe(recipe, failures):
    for test in recipe.tests:
        status, said = run(test, mounted=True)
        if status:
            failures.append(f'{recipe.name}: `{test}` ends with {status}:\n{said}')
        elif run(test)[0] == 0:
            failures.append(f'{recipe.name}: `{test}` passes without the recipe, too: it proves nothing')


def main(words):
    names, failures = [w for w in words if w != '--build'], []
    if not (ROOT / 'build/build.ninja').exists():
        sys.exit('recipes: no build folder to copy; `make tests` makes it')
    files = source_files()
    stamp, state = TREE / 'built', state_of(files, names)
    is_built = stamp.exists() and stamp.read_text() == state
    if not is_built:
        copy_tree(files)
    recipes = read_recipes(names, failures, is_built)
    if not recipes and not failures:
        sys.exit('recipes: no such recipe')
    targets = sorted({t for r in recipes for t in r.targets})
    status, said = run(f'ninja {" ".join(targets)}', mounted=True) if targets else (0, '')
    if status:
        failures.append(f'build of {", ".join(r.name for r in recipes)}:\n{said}')
    elif '--build' in words and not failures:
        stamp.write_text(state)
    else:
        for r in recipes:
            try_recipe(r, failures)
    for text in failures:
        print('recipe ' + text)
    if failures:
        return 1
    print(f'{len(recipes)} recipes, {sum(len(r.tests) for r in recipes)} tests')
    if '--build' not in words:
        shutil.rmtree(TREE)
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
