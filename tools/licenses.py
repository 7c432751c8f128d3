#!/usr/bin/env python3
"""The licenses of what a build has linked in, out of its bill of materials: a table with the license that gpuscope uses of each
library and what that asks for, then the texts as the distribution's packages have them. It fails, and names the library, where a
license is not known or does not go with the others.

usage: licenses.py SPDX_JSON > LICENSES.txt
"""

import gzip
import json
import os
import re
import sys

# What may be linked into one program under the MIT license, together: all go with each other (those of version 2 of the GPL alone
# would not go with Apache-2.0: gnu.org/licenses/license-list.html#apache2), and what each asks for is done.
NOTICE = 'keep its notice: it is below'
ALLOWED = {
    'MIT': NOTICE,
    'BSD-2-Clause': NOTICE,
    'BSD-3-Clause': NOTICE,
    'Zlib': 'nothing for a program',
    'blessing': 'nothing: it is in the public domain',
    'X11-distribute-modifications-variant': NOTICE,
    'Apache-2.0': NOTICE,
    'LGPL-3.0-or-later': 'keep its notice and the texts of LGPL and GPL: below; let others link again: the source and `make release`',
    'LGPL-2.0-or-later WITH Libiberty-exception-2.0': 'nothing for a program: the exception',
    'GPL-3.0-or-later WITH GCC-exception-3.1': 'nothing for a program: the exception',
}


def usable(expression):
    """The first license of A OR B that may be used, or None."""
    return next((word for word in expression.split(' OR ') if word in ALLOWED), None)


def text_of(package):
    """The text that Debian's package has of its licenses; '' elsewhere."""
    for ref in package.get('externalRefs', ()):
        name = re.match(r'pkg:deb/[^/]+/([^@]+)@', ref['referenceLocator'])
        for suffix, opener in (('', open), ('.gz', gzip.open)):
            path = f'/usr/share/doc/{name[1]}/copyright{suffix}' if name else ''
            if os.path.exists(path):
                with opener(path, 'rt', encoding='utf-8', errors='replace') as f:
                    return f.read().rstrip()
    return ''


def common_texts(names):
    """The texts of the LGPL and the GPL, which go with a program that has a library under the LGPL linked in."""
    for name in ('LGPL-3', 'GPL-3') if 'LGPL-3.0-or-later' in names else ():
        path = '/usr/share/common-licenses/' + name
        if os.path.exists(path):
            with open(path, encoding='utf-8') as f:
                yield f.read().rstrip(), name


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding='utf-8') as f:
        bill = json.load(f)
    packages = {p['SPDXID']: p for p in bill['packages']}
    linked = [packages[r['relatedSpdxElement']] for r in bill['relationships'] if r['relationshipType'] == 'STATIC_LINK']
    bad = [f'{p["name"]}: {p["licenseDeclared"]}' for p in linked if not usable(p['licenseDeclared'])]
    if bad:
        sys.exit('licenses: not known to go with the others: ' + ', '.join(bad))
    rows = [('library', 'version', 'license that is used', 'what it asks for')]
    rows += [(p['name'], p['versionInfo'], usable(p['licenseDeclared']), ALLOWED[usable(p['licenseDeclared'])]) for p in linked]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    print('gpuscope is under the MIT license (LICENSE). These libraries are linked into this build of it:\n')
    for row in rows:
        print('  '.join([*(text.ljust(width) for text, width in zip(row, widths)), row[3]]))
    shown = {}
    for p in linked:
        shown.setdefault(text_of(p), []).append(p['name'])
    for text, name in common_texts([usable(p['licenseDeclared']) for p in linked]):
        shown.setdefault(text, []).append(name)
    for text, names in shown.items():
        print(f'\n{"=" * 100}\n{", ".join(names)}\n{"=" * 100}\n{text or "This system has no text of it: see the source of the library."}')


if __name__ == '__main__':
    main()
