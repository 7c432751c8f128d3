#!/usr/bin/env python3
"""Writes the files of the page as one C header: name, type, ETag and bytes of each.

usage: page_files.py OUT FILE...
"""
import hashlib
import pathlib
import sys

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


def main():
    out, *paths = sys.argv[1:]
    rows, text = [], ["/* Made by tools/page_files.py. */\n"]
    for i, path in enumerate(map(pathlib.Path, paths)):
        data = path.read_bytes()
        etag = hashlib.sha256(data).hexdigest()[:16]
        lines = [", ".join(map(str, data[at : at + 24])) for at in range(0, len(data), 24)]
        text.append(f"static const unsigned char page_file_{i}[] = {{\n" + ",\n".join(lines) + "};\n")
        rows.append(f'\t{{"{path.name}", "{TYPES[path.suffix]}", "\\"{etag}\\"", page_file_{i}, {len(data)}}},\n')
    text.append("static const struct page_file {\n\tconst char *name, *type, *etag;\n\tconst unsigned char *data;\n\tsize_t bytes;\n} ")
    text.append("page_files[] = {\n" + "".join(rows) + "};\n")
    pathlib.Path(out).write_text("".join(text))


if __name__ == "__main__":
    main()
