"""A terminal of its own (tmux) for `gpuscope top` in the end-to-end tests."""

import os
import re
import shutil
import subprocess
import time

import harness
from harness import Skip, wait_until


def nvml():
    path = os.path.join(harness.fake, 'libnvidia-ml.so.1')
    if not os.path.exists(path):
        raise Skip('the stand-in libnvidia-ml.so.1 was not built')
    return path


def sleeper(t, seconds='300'):
    proc = subprocess.Popen(['sleep', seconds], env=t.env)
    # Its name is that of this program until it runs its own.
    wait_until(lambda: harness.read_text(f'/proc/{proc.pid}/comm').strip() == 'sleep', 20, 'sleep')
    return proc


class Screen:
    """gpuscope top in a terminal of its own, looked at through tmux."""

    def __init__(self, t, *args, columns=80, rows=24, env=None, fake_file=None, replay=False, term=None):
        if not shutil.which('tmux'):
            raise Skip('tmux is not installed')
        t.n_files += 1
        self.t, self.socket = t, t.path(f'tmux{t.n_files}')
        self.err = t.path(f'err{t.n_files}')
        words = [harness.gpuscope, 'top', *(() if replay else ('--nvml', nvml())), '--interval', '200ms', *args]
        command = ' '.join(f"'{w}'" for w in words)
        if term:
            command = f'TERM={term} {command}'
        shell = f'{command} 2>{self.err}; echo "ended with $?"; sleep 300'
        env = {**t.env, 'LC_ALL': 'C.UTF-8', 'LANG': 'C.UTF-8', **(env or {})}
        if fake_file:
            env['FAKE_NVML_FILE'] = fake_file
        self.tmux('-f', '/dev/null', 'new-session', '-d', '-s', 'a', '-x', str(columns), '-y', str(rows),
                  'sh', '-c', shell, env=env)  # fmt: skip

    def tmux(self, *args, env=None):
        done = subprocess.run(['tmux', '-S', self.socket, *args], capture_output=True, text=True,
                              env=env or self.t.env, timeout=30)  # fmt: skip
        assert done.returncode == 0, f'tmux {args}: {done.stderr}'
        return done.stdout

    def text(self):
        return self.tmux('capture-pane', '-p', '-t', 'a')

    def keys(self, *keys):
        for key in keys:
            self.tmux('send-keys', '-t', 'a', key)

    def click(self, pattern, times=1):
        """Where it stands on the screen, in the encoding that tmux's own terminal is known by."""
        y, line = next((y, line) for y, line in enumerate(self.text().splitlines()) if re.search(pattern, line))
        x = re.search(pattern, line).start()
        at = [f'{33 + x:x}', f'{33 + y:x}']
        once = ['1b', '5b', '4d', '20', *at, '1b', '5b', '4d', '23', *at]  # the left one down, any up
        self.tmux('send-keys', '-t', 'a', '-H', *once * times)

    def resize(self, columns, rows):
        self.tmux('resize-window', '-t', 'a', '-x', str(columns), '-y', str(rows))

    def wait(self, pattern, seconds=20, absent=False):
        """Until the pattern is (not) on the screen; the screen. One that is just being drawn is looked at again."""
        end, found = time.monotonic() + seconds * harness.PATIENCE, []
        while True:
            text = self.text()
            if bool(re.search(pattern, text)) != absent:
                if found[-1:] == [text] or len(found) > 10:
                    return text
                found.append(text)
            elif found and not absent:
                return found[-1]
            else:
                found = []
            assert time.monotonic() < end, (
                f'{"still" if absent else "no"} {pattern!r} on the screen:\n{text}\n'
                f'{harness.read_text(self.err)}'
            )
            time.sleep(0.05)

    def close(self):
        subprocess.run(['tmux', '-S', self.socket, 'kill-server'], capture_output=True, env=self.t.env)
