"""Shapes of machine formats: which keys, columns and types a text has, one a line, without its values."""

import csv
import io
import json
import re
import subprocess

TYPES = {bool: 'bool', int: 'number', float: 'number', str: 'text', type(None): 'null', dict: 'object', list: 'list'}


def of_value(value, at='', out=None):
    """{path: types} of a JSON value; all elements of a list are one."""
    out = {} if out is None else out
    out.setdefault(at or '.', set()).add(TYPES[type(value)])
    if isinstance(value, dict):
        for key, member in value.items():
            of_value(member, f'{at}.{key}', out)
    elif isinstance(value, list):
        for member in value:
            of_value(member, at + '[]', out)
    return out


def of_json(text):
    return of_value(json.loads(text))


def of_csv(text):
    """The columns of each table: a text may have several, with an empty line between them."""
    tables = re.split(r'\n\n+', text.strip())
    return {f'table {i}: {column}': {'column'} for i, table in enumerate(tables) for column in next(csv.reader(io.StringIO(table)))}


def of_metrics(text):
    """Families with their types, and the labels of their samples."""
    out = {}
    for line in text.splitlines():
        declared = re.match(r'# TYPE (\S+) (\S+)', line)
        sample = re.match(r'([a-z_0-9A-Z:]+)(?:\{(.*)\})? ', line)
        if declared:
            out[f'family {declared[1]}'] = {declared[2]}
        elif sample and not line.startswith('#'):
            for label in re.findall(r'([a-zA-Z_0-9]+)="(?:[^"\\]|\\.)*"', sample[2] or ''):
                out[f'{sample[1]} {{{label}}}'] = {'label'}
    return out


def of_sql(text):
    """Columns of tables and views with their types, and the names of all else."""
    out, table = {}, ''
    for line in text.splitlines():
        made = re.match(r'CREATE (?:OR REPLACE )?(?:SQL SECURITY \w+ )?(TABLE|VIEW|INDEX|EVENT)\b.*?`(\w+)`', line)
        column = re.match(r' +`(\w+)` ([A-Z]+[^,]*?)(?: COMMENT.*)?,?$', line)
        if made:
            table = made[2]
            out[f'{made[1].lower()} {table}'] = {'object'}
        elif column and table:
            out[f'{table}.{column[1]}'] = {column[2].strip()}
    return out


def of_folded(text):
    """Each line is a stack and a number; its frames are not compared."""
    bad = [line for line in text.splitlines() if not re.fullmatch(r'[^;]+(;[^;]+)* \d+', line)]
    return {'stack;stack number': {'line'}, **{f'another line: {line}': {'line'} for line in bad}}


def of_protobuf(data, folder, proto, message):
    """By protoc: names of the fields of a schema that is stored in this folder."""
    done = subprocess.run(['protoc', f'--proto_path={folder}', f'--decode={message}', proto], input=data, capture_output=True, check=True)
    out, path = {}, []
    for line in done.stdout.decode(errors='replace').splitlines():
        word = line.strip()
        if word.endswith('{'):
            path.append(word[:-1].strip())
            out['.'.join(path)] = {'object'}
        elif word == '}':
            path.pop()
        else:
            name, value = word.split(':', 1)
            out['.'.join([*path, name])] = {'text' if value.strip().startswith('"') else 'number' if re.fullmatch(r' *-?[0-9.e+-]+', value) else 'word'}
    return out


def of_openapi(text):
    """Each answer and request of the API: what their schemas allow, references followed."""
    document = json.loads(text)
    out = {}

    def follow(schema, at, depth=0):
        if '$ref' in schema:
            name = schema['$ref'].rsplit('/', 1)[1]
            schema = document['components']['schemas'][name]
        if depth > 12:
            return
        types = schema.get('type', [])
        out.setdefault(at, set()).update([types] if isinstance(types, str) else types or ['text' if 'enum' in schema else 'any'])
        for word in ('anyOf', 'oneOf', 'allOf'):
            for choice in schema.get(word, []):
                follow(choice, at, depth + 1)
        for name, member in schema.get('properties', {}).items():
            follow(member, f'{at}.{name}', depth + 1)
        if isinstance(schema.get('items'), dict):
            follow(schema['items'], f'{at}[]', depth + 1)

    for path, methods in document['paths'].items():
        for method, operation in methods.items():
            if not isinstance(operation, dict):
                continue
            at = f'{method.upper()} {path}'
            out[at] = {'endpoint'}
            for parameter in operation.get('parameters', []):
                out[f'{at} ?{parameter.get("name")}'] = {'parameter'}
            bodies = {'answer': operation.get('responses', {}).get('200', {}), 'request': operation.get('requestBody', {})}
            for word, body in bodies.items():
                for kind, content in body.get('content', {}).items():
                    follow(content.get('schema', {}), f'{at} {word} {kind}')
    return out


def to_text(shape, version):
    return f'version {version}\n' + ''.join(f'{path}\t{" | ".join(sorted(types))}\n' for path, types in sorted(shape.items()))


def from_text(text):
    first, *lines = text.splitlines()
    return {path: set(types.split(' | ')) for path, types in (line.split('\t') for line in lines)}, int(first.split()[1])


def missing(golden, today):
    """What readers of the golden one would not find now: paths, and types that are another."""
    gone = [path for path in golden if path not in today]
    # A value that is null in the one and not in the other is the same value.
    other = [path for path in golden if path in today and (golden[path] - {'null'}) - today[path] and today[path] != {'null'}]
    null = [path for path in golden if path in today and today[path] == {'null'} and golden[path] != {'null'}]
    return [f'{path} is gone' for path in gone] + [f'{path} was {"/".join(sorted(golden[path]))} and is {"/".join(sorted(today[path]))}' for path in other + null]
