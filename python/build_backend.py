#!/usr/bin/env python3
"""Makes the wheel and the source distribution of the Python package; the build backend of PEP 517.

It needs Python alone, so that it works without a network in every version: setuptools would have to be downloaded into each
isolated build, cannot make a wheel for all versions of Python with a program in it without a class of its own, and
pyproject.toml is read by newer Pythons only (tomllib, 3.11).

    python/build_backend.py wheel FOLDER [BUILD]   # BUILD: a folder of Meson that was built; else it is built now (Meson, a compiler)
    python/build_backend.py sdist FOLDER

The environment variable GPUSCOPE_BUILD names BUILD, too. The same tree gives the same bytes (SOURCE_DATE_EPOCH is heeded).
"""

import base64
import glob
import gzip
import hashlib
import io
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(HERE)

# What a source distribution has of the tree: all that is needed to build without tests.
SOURCE_PARTS = ('LICENSE', 'README.md', 'meson.build', 'meson_options.txt', 'include/', 'man/', 'packaging/', 'proto/', 'python/', 'src/',
                'tools/', 'web/')  # fmt: skip

# Libraries that each Linux has in the form that is expected (PEP 600, the policy of auditwheel for manylinux_2_17 and later).
SYSTEM_LIBRARIES = {'libc.so.6', 'libm.so.6', 'libdl.so.2', 'librt.so.1', 'libpthread.so.0', 'libresolv.so.2', 'libutil.so.1', 'libgcc_s.so.1',
                    'ld-linux-x86-64.so.2', 'libz.so.1'}  # fmt: skip

# From a folder of Meson into the package: pattern, folder, whether it is a program.
NATIVE = (
    ('src/gpuscope', 'bin', True),
    ('src/companion/*/libgpuscope_companion*.so', 'lib/gpuscope', False),
)
# The library, by its soname.
LIBRARY = 'src/libgpuscope.so.0'


def read(path):
    with open(path, encoding='utf-8') as f:
        return f.read()


def version():
    """Of the tree; that of the package must be the same."""
    found = re.search(r"version: '([^']+)'", read(os.path.join(SOURCE, 'meson.build')))[1]
    package = re.search(r"'([^']+)'", read(os.path.join(HERE, 'gpuscope', '_version.py')))[1]
    if found != package:
        sys.exit(f'meson.build has version {found}, python/gpuscope/_version.py {package}: make them the same')
    return found


def project(key):
    """A text of pyproject.toml; Python has no reader of TOML before 3.11."""
    return re.search(rf'(?m)^{key} = "(.*)"$', read(os.path.join(HERE, 'pyproject.toml')))[1]


def metadata():
    text = read(os.path.join(HERE, 'pyproject.toml'))
    classifiers = re.findall(r'^  "(.*)",$', text, re.M)
    extras = re.findall(r'^(\w+) = \["(\w+)"\]$', text, re.M)
    lines = ['Metadata-Version: 2.1', 'Name: gpuscope', f'Version: {version()}', f'Summary: {project("description")}', 'License: MIT',
             *(f'Classifier: {c}' for c in classifiers), f'Requires-Python: {project("requires-python")}']  # fmt: skip
    for extra, needed in extras:
        lines += [f'Provides-Extra: {extra}', f'Requires-Dist: {needed}; extra == "{extra}"']
    return '\n'.join([*lines, 'Description-Content-Type: text/markdown', '', read(os.path.join(HERE, 'README.md'))])


class Elf:
    """What an ELF file of x86-64 needs: libraries, and versions of their symbols."""

    def __init__(self, path):
        with open(path, 'rb') as f:
            self.data = f.read()
        if self.data[:6] != b'\x7fELF\x02\x01':
            sys.exit(f'{path} is not an ELF file of x86-64')
        at, size, n = struct.unpack_from('<40xQ10xHH', self.data)
        self.sections = [struct.unpack_from('<IIQQQQIIQQ', self.data, at + i * size) for i in range(n)]

    def text(self, strings, at):
        begin = self.sections[strings][4] + at
        return self.data[begin : self.data.index(b'\0', begin)].decode()

    def dynamic(self, tag):
        """Texts of a tag: 1 DT_NEEDED, 14 DT_SONAME."""
        for s in self.sections:
            if s[1] == 6:  # SHT_DYNAMIC
                for at in range(s[4], s[4] + s[5], 16):
                    found, value = struct.unpack_from('<qQ', self.data, at)
                    if found == tag:
                        yield self.text(s[6], value)

    def glibc(self):
        """The newest version of glibc that a symbol needs, as (2, 36)."""
        newest = (2, 17)
        for s in self.sections:
            if s[1] != 0x6FFFFFFE:  # SHT_GNU_verneed
                continue
            at = s[4]
            for _ in range(s[7]):
                _, n, _, first, following = struct.unpack_from('<HHIII', self.data, at)
                aux = at + first
                for _ in range(n):
                    name_at, next_aux = struct.unpack_from('<8xII', self.data, aux)
                    match = re.match(r'GLIBC_(\d+)\.(\d+)', self.text(s[6], name_at))
                    if match:
                        newest = max(newest, (int(match[1]), int(match[2])))
                    aux += next_aux
                at += following
        return newest


def needed_libraries(path):
    """[(soname, file)] of what a library needs and not every machine has, each after what it needs itself."""
    listed = subprocess.run(['ldd', path], check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout
    files = dict(re.findall(r'(\S+) => (/\S+)', listed))
    found = {}

    def visit(file):
        for name in Elf(file).dynamic(1):
            if name not in SYSTEM_LIBRARIES and name not in found:
                if name not in files:
                    sys.exit(f'{file} needs {name}, which is not installed')
                visit(files[name])
                found[name] = files[name]

    visit(path)
    return list(found.items())


def licences(libraries):
    """{place: text} of what is copied into the wheel from the distribution's packages, as those state it."""
    found = {}
    for _, file in libraries:
        real = os.path.realpath(file)
        # Packages of before /usr was merged have their files as /lib/...
        names = [real, real[len('/usr') :]] if real.startswith('/usr/lib') else [real]
        listed = ''
        if shutil.which('dpkg'):
            listed = subprocess.run(['dpkg', '-S', *names], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True).stdout
        path = f'/usr/share/doc/{listed.split(":")[0]}/copyright'
        if not listed or not os.path.exists(path):
            sys.exit(f'the licence of {file} is not found: build the wheel on Debian or Ubuntu, where the package says it')
        found[f'licenses/{listed.split(":")[0]}'] = read(path)
    return found


def platform_tag(programs, libraries):
    """manylinux_2_36_x86_64 where programs need nothing but glibc; else linux_x86_64, of this distribution alone."""
    others = sorted({name for path in programs for name in Elf(path).dynamic(1)} - SYSTEM_LIBRARIES)
    if others:
        print(f'gpuscope: the program in this wheel is for machines that have {", ".join(others)} (one that is built with -Dportable=true needs none)',
              file=sys.stderr)  # fmt: skip
        return 'linux_x86_64'
    major, minor = max(Elf(path).glibc() for path in programs + libraries)
    return f'manylinux_{major}_{minor}_x86_64'


def natives(build):
    """[(file, place in the package, is a program)] of a folder of Meson."""
    found = []
    for pattern, folder, is_program in NATIVE:
        files = sorted(glob.glob(os.path.join(build, pattern)))
        if not files:
            sys.exit(f'{build} has no {pattern}: build it first (ninja -C {build}), or leave GPUSCOPE_BUILD out')
        found += [(f, f'_native/{folder}/{os.path.basename(f)}', is_program) for f in files]
    path = os.path.join(build, LIBRARY)
    if os.path.exists(path):
        return [*found, (path, f'_native/lib/{next(Elf(path).dynamic(14))}', False)]
    sys.exit(f'{build} has no libgpuscope.so: build it first (ninja -C {build})')


def build_native(folder):
    """Builds the tree in a folder, linked with what is static, without its tests."""
    setup = ['meson', 'setup', folder, SOURCE, '--buildtype=release', '--strip', '-Dportable=true', '-Dtests=disabled']
    for command in (setup, ['ninja', '-C', folder]):
        done = subprocess.run(command, stdout=sys.stderr)
        if done.returncode:
            sys.exit(f'gpuscope: {" ".join(command[:2])} failed; README.md says what building needs')
    return folder


def epoch():
    """Of files in archives: 1980 is the first year that .zip has."""
    return max(int(os.environ.get('SOURCE_DATE_EPOCH', '0')), 315532800)


class Wheel:
    def __init__(self, path):
        self.zip = zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED)
        self.rows = []

    def add(self, name, data, mode=0o644):
        import time

        info = zipfile.ZipInfo(name, time.gmtime(epoch())[:6])
        info.external_attr, info.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
        self.zip.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()
        self.rows.append(f'{name},sha256={digest},{len(data)}')

    def close(self, info_folder):
        record = f'{info_folder}/RECORD'
        self.add(record, ('\n'.join([*self.rows, f'{record},,']) + '\n').encode())
        self.zip.close()


def stripped(path):
    """Without what only debuggers read: three quarters of the bytes. With it where binutils are missing."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, 'file')
        shutil.copy(path, out)
        if shutil.which('strip'):
            subprocess.run(['strip', '--strip-unneeded', out], check=True)
        with open(out, 'rb') as f:
            return f.read()


def metadata_files(tag):
    wheel = f'Wheel-Version: 1.0\nGenerator: gpuscope {version()}\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n'
    scripts = '[console_scripts]\ngpuscope = gpuscope.__main__:main\n'
    return {'METADATA': metadata(), 'WHEEL': wheel, 'entry_points.txt': scripts, 'LICENSE': read(os.path.join(SOURCE, 'LICENSE'))}


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    build = os.environ.get('GPUSCOPE_BUILD')
    with tempfile.TemporaryDirectory() as folder:
        files = natives(build or build_native(os.path.join(folder, 'build')))
        # The library loads its own copies (gpuscope/_library.py); a program with others needs those of the machine.
        bundled = needed_libraries(files[-1][0])
        tag = platform_tag([path for path, _, _ in files[:-1]], [files[-1][0], *(path for _, path in bundled)])
        name = f'gpuscope-{version()}-py3-none-{tag}.whl'
        wheel = Wheel(os.path.join(wheel_directory, name))
        for path in sorted(glob.glob(os.path.join(HERE, 'gpuscope', '**', '*'), recursive=True)):
            if path.endswith(('.py', 'py.typed')):
                with open(path, 'rb') as f:
                    wheel.add(os.path.relpath(path, HERE), f.read())
        for path, place, is_program in files:
            wheel.add(f'gpuscope/{place}', stripped(path), 0o755 if is_program else 0o644)
        for number, (soname, path) in enumerate(bundled):
            with open(path, 'rb') as f:
                wheel.add(f'gpuscope/_native/lib/needed/{number:02}-{soname}', f.read())
        info = f'gpuscope-{version()}.dist-info'
        for file, text in {**metadata_files(tag), **licences(bundled)}.items():
            wheel.add(f'{info}/{file}', text.encode())
        wheel.close(info)
    return name


def source_files():
    """Of the tree, as git has them; of an unpacked source distribution, all."""
    if os.path.exists(os.path.join(SOURCE, '.git')):
        listed = subprocess.run(['git', '-C', SOURCE, 'ls-files', '-z', '--', *SOURCE_PARTS], check=True, stdout=subprocess.PIPE)
        return sorted(f for f in listed.stdout.decode().split('\0') if f and os.path.isfile(os.path.join(SOURCE, f)))
    found = []
    for folder, folders, files in os.walk(SOURCE):
        folders[:] = [f for f in folders if f != '__pycache__' and not (folder == SOURCE and f.startswith('build'))]
        found += [os.path.relpath(os.path.join(folder, f), SOURCE) for f in files]
    return sorted(f for f in found if f not in ('PKG-INFO', 'pyproject.toml'))


def build_sdist(sdist_directory, config_settings=None):
    base = f'gpuscope-{version()}'
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w', format=tarfile.PAX_FORMAT) as tar:

        def add(name, data, mode=0o644):
            info = tarfile.TarInfo(f'{base}/{name}')
            info.size, info.mode, info.mtime = len(data), mode, epoch()
            tar.addfile(info, io.BytesIO(data))

        add('PKG-INFO', metadata().encode())
        text = read(os.path.join(HERE, 'pyproject.toml')).replace('backend-path = ["."]', 'backend-path = ["python"]')
        add('pyproject.toml', text.replace('readme = "README.md"', 'readme = "python/README.md"').encode())
        for name in source_files():
            path = os.path.join(SOURCE, name)
            with open(path, 'rb') as f:
                add(name, f.read(), 0o755 if os.access(path, os.X_OK) else 0o644)
    path = os.path.join(sdist_directory, base + '.tar.gz')
    with open(path, 'wb') as f, gzip.GzipFile('', 'wb', fileobj=f, mtime=epoch()) as packed:
        packed.write(out.getvalue())
    return os.path.basename(path)


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Without it pip would build the wheel a first time to look into it."""
    folder = f'gpuscope-{version()}.dist-info'
    os.makedirs(os.path.join(metadata_directory, folder), exist_ok=True)
    with open(os.path.join(metadata_directory, folder, 'METADATA'), 'w', encoding='utf-8') as f:
        f.write(metadata())
    return folder


def get_requires_for_build_wheel(config_settings=None):
    return []


def get_requires_for_build_sdist(config_settings=None):
    return []


def main():
    words = sys.argv[1:]
    if len(words) == 3 and words[0] == 'wheel':
        os.environ['GPUSCOPE_BUILD'] = words.pop()
    if len(words) != 2 or words[0] not in ('wheel', 'sdist'):
        sys.exit(__doc__.split('\n\n')[2])
    os.makedirs(words[1], exist_ok=True)
    print(os.path.join(words[1], (build_wheel if words[0] == 'wheel' else build_sdist)(words[1])))


if __name__ == '__main__':
    main()
