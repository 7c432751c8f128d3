"""Every option that --help tells is in the manual page, and the page has no others.

man_pages.py GPUSCOPE MAN_FOLDER
"""
import os
import re
import subprocess
import sys

gpuscope, folder = sys.argv[1:]
wrong = []
for command in ("agent", "gpu", "job", "probes", "trace", "report", "explain", "open", "top"):
    run = subprocess.run([gpuscope, command, "--help-all"], capture_output=True, text=True,
                         env={**os.environ, "ARGP_HELP_FMT": "rmargin=200"})
    if run.returncode != 0:
        sys.exit(f"gpuscope {command} --help ended with {run.returncode}: {run.stderr}")
    told = set()
    for line in run.stdout.splitlines():
        found = re.match(r"\s+(-\w|-\?)?,?\s*(--[a-z-]+)", line)
        if found:
            told |= {option for option in found.groups() if option}
    if "--help-all" not in told or len(told) < 6:
        sys.exit(f"cannot read the help of gpuscope {command}: found {sorted(told)}")
    path = os.path.join(folder, f"gpuscope-{command}.{8 if command == 'agent' else 1}")
    page = open(path).read().replace("\\-", "-").split(".SH OPTIONS")[1].split(".SH EXIT")[0].split(".SH CONFIGURATION")[0]
    heads = [lines[1] for lines in (part.split("\n") for part in page.split(".TP")[1:])]
    has = set(re.findall(r"(?<![\w-])(--[a-z-]+|-[\w?])", "\n".join(heads)))
    wrong += [f"{path}: {option} is missing" for option in sorted(told - has)]
    wrong += [f"{path}: {option} is not an option" for option in sorted(has - told)]
print("\n".join(wrong) or "ok")
sys.exit(bool(wrong))
