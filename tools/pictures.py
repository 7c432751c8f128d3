#!/usr/bin/env python3
"""Makes every picture and screen of README.md and doc/ again, into a folder:

    summary.txt   the screen of README.md: a training loop that waits for its data, attached to for six seconds
    summary.svg   the same, as a terminal shows it
    top.svg       gpuscope top on eight GPUs
    page.png      the page of an agent (with Chromium)
    run.html      the page of a recording; run.png: a picture of it (with Chromium)
    flame.svg     a flame graph

With a GPU, PyTorch and torchvision, summary is of ResNet-50 with one data worker (tests/gpu/verdict_programs.py), and top and page
are of this machine's GPUs. Without, they are of stand-ins for the libraries of CUDA and NVML, and those of a terminal say so.

usage, as root: pictures.py [--build BUILD] [FOLDER]     (build, BUILD/pictures)
"""

import argparse
import contextlib
import html
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
STAND_IN = "stand-ins for CUDA and NVML: no real GPU"
COLOURS = ("#1d1f21", "#cc6666", "#8abf6a", "#e6c547", "#6a9fd8", "#b294bb", "#70c0ba", "#c5c8c6",
           "#767676", "#ff8080", "#a8e08a", "#ffe27a", "#9cc8ff", "#d6b6e0", "#9ae6df", "#ffffff")  # fmt: skip
CELL_W, CELL_H = 8.4, 17
PATIENCE_S = 120


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"pictures.py: {what}: not within {PATIENCE_S} s")
        time.sleep(0.2)


def colour_256(n):
    if n < 16:
        return COLOURS[n]
    if n >= 232:
        return "#" + f"{8 + 10 * (n - 232):02x}" * 3
    steps = (0, 95, 135, 175, 215, 255)
    n -= 16
    return "#" + "".join(f"{steps[x]:02x}" for x in (n // 36, n // 6 % 6, n % 6))


def style_after(style, codes):
    """(foreground, background, bold, inverse) after the numbers of one escape sequence."""
    front, back, bold, inverse = style
    codes = [int(c or 0) for c in codes.split(";")]
    while codes:
        c = codes.pop(0)
        if c == 0:
            front, back, bold, inverse = None, None, False, False
        elif c == 1:
            bold = True
        elif c == 7:
            inverse = True
        elif c in (38, 48) and codes:
            kind = codes.pop(0)
            value = colour_256(codes.pop(0)) if kind == 5 else "#%02x%02x%02x" % tuple(codes.pop(0) for _ in range(3))
            front, back = (value, back) if c == 38 else (front, value)
        elif 30 <= c <= 37 or 90 <= c <= 97:
            front = COLOURS[c - 30 if c < 40 else c - 82]
        elif 40 <= c <= 47 or 100 <= c <= 107:
            back = COLOURS[c - 40 if c < 50 else c - 92]
        elif c in (39, 49):
            front, back = (None, back) if c == 39 else (front, None)
        elif c in (22, 27):
            bold, inverse = (False, inverse) if c == 22 else (bold, False)
    return front, back, bold, inverse


def terminal_svg(screen, note):
    """A screen with escape sequences for colours, as an SVG; note: a line below it, or ""."""
    lines = screen.rstrip("\n").split("\n") + (["", note] if note else [])
    width = max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in lines) * CELL_W + 20
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{len(lines) * CELL_H + 20}" '
           f'font-family="DejaVu Sans Mono, monospace" font-size="14"><rect width="100%" height="100%" fill="{COLOURS[0]}"/>']  # fmt: skip
    style = (None, None, False, False)
    for row, line in enumerate(lines):
        column, y = 0, 10 + row * CELL_H
        for part in re.split(r"(\x1b\[[0-9;]*m)", line):
            if part.startswith("\x1b["):
                style = style_after(style, part[2:-1])
                continue
            if not part:
                continue
            front, back = (style[1] or COLOURS[0], style[0] or COLOURS[7]) if style[3] else (style[0] or COLOURS[7], style[1])
            x = 10 + column * CELL_W
            if back:
                out.append(f'<rect x="{x:.1f}" y="{y}" width="{len(part) * CELL_W:.1f}" height="{CELL_H}" fill="{back}"/>')
            if part.strip():
                bold = ' font-weight="bold"' if style[2] else ""
                out.append(f'<text x="{x:.1f}" y="{y + 13}" fill="{front}"{bold} textLength="{len(part) * CELL_W:.1f}" xml:space="preserve">'
                           f"{html.escape(part)}</text>")  # fmt: skip
            column += len(part)
    return "\n".join(out) + "\n</svg>\n"


class Pictures:
    def __init__(self, build, folder):
        self.gpuscope, self.fake, self.folder = build / "src/gpuscope", build / "tests/fake", folder
        self.env = {**os.environ, "LANG": "C.UTF-8", "COLUMNS": "120"}
        ask = "import torch, torchvision; assert torch.cuda.is_available()"
        self.real = subprocess.run([sys.executable, "-c", ask], capture_output=True).returncode == 0
        self.note = "" if self.real else STAND_IN
        folder.mkdir(parents=True, exist_ok=True)

    def stand_in_env(self, folder):
        """Libraries of CUDA and NVML alone: the folder of the stand-ins has one for PyTorch, too."""
        for path in self.fake.glob("lib*"):
            if path.name.startswith(("libcuda.", "libcudart", "libnccl.", "libnvidia-ml")):
                os.symlink(path, os.path.join(folder, path.name))
        self.env |= {"LD_LIBRARY_PATH": folder, "FAKE_NVML": "gpus=8", "DOCUMENTS_SECONDS": "3600", "DOCUMENTS_STEP_MS": "20"}

    @contextlib.contextmanager
    def program(self):
        """A training loop that waits for its data: its process."""
        words = [sys.executable, "-u", ROOT / "tests/gpu/verdict_programs.py", "resnet_1_worker"] if self.real else \
                [sys.executable, ROOT / "tests/e2e/documents_train.py"]  # fmt: skip
        proc = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.env, start_new_session=True)
        try:
            if self.real:
                for wanted in ("prepared", "ready"):
                    while wanted not in proc.stdout.readline():
                        if proc.poll() is not None:
                            sys.exit("pictures.py: the program of ResNet-50 ended")
                    if wanted == "prepared":
                        proc.stdin.write("\n")
                        proc.stdin.flush()
            else:
                maps = pathlib.Path(f"/proc/{proc.pid}/maps")
                wait_until(lambda: "libcudart" in maps.read_text(), "start of the training loop")
            yield proc
        finally:
            os.killpg(proc.pid, signal.SIGKILL)
            proc.wait()

    def run(self, *words):
        return subprocess.run([self.gpuscope, *words], check=True, capture_output=True, text=True, env=self.env).stdout

    def summary(self):
        with self.program() as proc:
            text = self.run("trace", "-p", str(proc.pid), "--follow", "--duration", "6s", "-o", str(self.folder / "run.gst"))
        (self.folder / "summary.txt").write_text(text + (f"({self.note})\n" if self.note else ""))
        (self.folder / "summary.svg").write_text(terminal_svg(text, self.note))
        self.run("report", str(self.folder / "run.gst"), "-o", str(self.folder / "run.html"), "-o", str(self.folder / "flame.svg"))

    def top(self):
        socket = str(self.folder / "tmux")

        def tmux(*words):
            return subprocess.run(["tmux", "-S", socket, "-f", "/dev/null", *words], check=True, capture_output=True, text=True,
                                  env={**self.env, "LC_ALL": "C.UTF-8"}).stdout  # fmt: skip

        tmux("new-session", "-d", "-s", "a", "-x", "140", "-y", "44", str(self.gpuscope), "top", "--commands", "name")
        try:
            # Until three samples were shown: rates are of two.
            times = set()

            def is_full():
                times.update(re.findall(r"(?m)^gpuscope top .*?([0-9]{2}:[0-9]{2}:[0-9]{2})", tmux("capture-pane", "-p", "-t", "a")))
                return len(times) >= 3

            wait_until(is_full, "three samples of gpuscope top")
            screen = tmux("capture-pane", "-e", "-p", "-t", "a")
        finally:
            tmux("kill-server")
        (self.folder / "top.svg").write_text(terminal_svg(screen, self.note))

    def chromium(self, url, name, height):
        program = shutil.which("chromium") or shutil.which("google-chrome")
        if not program:
            print(f"pictures.py: no {name}: Chromium is not installed", file=sys.stderr)
            return
        # Its virtual time lets a page that asks for data again and again draw itself. It stands still while an answer is
        # awaited, on a full machine for ever: then once more.
        for last in (False, True):
            with tempfile.TemporaryDirectory(prefix="gpuscope_pictures_") as profile:
                try:
                    subprocess.run([program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--run-all-compositor-stages-before-draw",
                                    f"--user-data-dir={profile}", f"--window-size=1280,{height}", "--virtual-time-budget=8000",
                                    f"--screenshot={self.folder / name}", url], check=True, capture_output=True, timeout=PATIENCE_S / 2,
                                   env={**os.environ, "HOME": profile})  # fmt: skip
                    return
                except subprocess.TimeoutExpired:
                    if last:
                        raise

    def pages(self):
        self.chromium((self.folder / "run.html").resolve().as_uri(), "run.png", 1600)
        with open(self.folder / "agent.err", "w+", encoding="utf-8") as err:
            agent = subprocess.Popen([self.gpuscope, "agent", "--listen", "127.0.0.1:0", "--control", ""], stderr=err, env=self.env)
            try:
                path = self.folder / "agent.err"
                wait_until(lambda: re.search(r"served at (\S+)/metrics", path.read_text()) or agent.poll() is not None, "the agent")
                found = re.search(r"served at (\S+)/metrics", path.read_text())
                if not found:
                    sys.exit(f"pictures.py: the agent ended: {path.read_text()}")
                self.chromium(found[1] + "/", "page.png", 900)
            finally:
                agent.terminate()
                agent.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", type=pathlib.Path)
    parser.add_argument("folder", nargs="?", type=pathlib.Path)
    args = parser.parse_args()
    build = args.build.resolve()
    with tempfile.TemporaryDirectory(prefix="gpuscope_pictures_") as libraries:
        pictures = Pictures(build, (args.folder or build / "pictures").resolve())
        if not pictures.real:
            pictures.stand_in_env(libraries)
        pictures.summary()
        pictures.top()
        pictures.pages()
    for name in ("agent.err", "run.gst", "tmux"):
        (pictures.folder / name).unlink(missing_ok=True)
    print("\n".join(str(p) for p in sorted(pictures.folder.iterdir())))


if __name__ == "__main__":
    main()
