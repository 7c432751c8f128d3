#!/usr/bin/env python3
"""Writes a page that needs no other file: a template with a style and modules in place of @STYLE@ and
@SCRIPT@, and the last function that the last one exports in place of @DRAW@. @HASH@ becomes the hash by which its own policy lets this script run, and no other one.

usage: report_page.py TEMPLATE STYLE MODULE... OUT
"""
import base64
import hashlib
import pathlib
import re
import sys


def main():
    template, style, *modules, out = [pathlib.Path(p) for p in sys.argv[1:]]
    page, css = template.read_text(encoding="utf-8"), style.read_text(encoding="utf-8")
    # As one script: what a module exports is there for the next one without an import.
    script = "".join(re.sub(r"^import .*\n|^export ", "", m.read_text(encoding="utf-8"), flags=re.MULTILINE) for m in modules)
    if re.search("</?(script|style)|<!--", script + css, re.IGNORECASE):
        sys.exit("report_page: a script or style that ends the element it stands in")
    draw = re.findall(r"^export function (\w+)", modules[-1].read_text(encoding="utf-8"), flags=re.MULTILINE)[-1]
    page = page.replace("@STYLE@", css).replace("@SCRIPT@", script).replace("@DRAW@", draw)
    code = page[page.rindex("<script>") + len("<script>") : page.rindex("</script>")]
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    out.write_text(page.replace("@HASH@", "sha256-" + digest), encoding="utf-8")


main()
