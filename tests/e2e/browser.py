"""A real Chromium without a screen, by the DevTools protocol."""

import base64
import json
import os
import re
import shutil
import subprocess
import urllib.request

from harness import Skip, read_text, wait_until

try:
    import websocket
except ImportError:
    websocket = None


def trust(home, ca):
    """As a person does by hand: the CA goes into the user's own certificates."""
    if not shutil.which('certutil'):
        raise Skip('no certutil (libnss3-tools)')
    folder = os.path.join(home, '.pki', 'nssdb')
    os.makedirs(folder)
    for args in (['-N', '--empty-password'], ['-A', '-t', 'C,,', '-n', 'test CA', '-i', ca]):
        subprocess.run(['certutil', '-d', 'sql:' + folder, *args], check=True, capture_output=True)


class Browser:
    def __init__(self, t, ca=None, name='browser'):
        """ca: a certificate that this browser trusts; name: of the folder for its profile."""
        program = shutil.which('chromium') or shutil.which('chromium-browser') or shutil.which('google-chrome')
        if not program:
            raise Skip('no chromium')
        if not websocket:
            raise Skip('no python3-websocket')
        self.log = t.path(f'{name}.log')
        home = t.path(name)
        if ca:
            trust(home, ca)
        with open(self.log, 'wb') as f:
            self.proc = subprocess.Popen(
                [program, '--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', '--hide-scrollbars',
                 '--disable-background-networking', '--disable-extensions', '--remote-debugging-port=0', '--remote-allow-origins=*',
                 f'--user-data-dir={home}/profile', 'about:blank'],
                stdout=f, stderr=f, env={**os.environ, 'HOME': home})  # fmt: skip
        wait_until(lambda: re.search(r'listening on ws://(\S+?)/', read_text(self.log)), 120, 'chromium listens')
        where = re.search(r'listening on ws://(\S+?)/', read_text(self.log)).group(1)
        pages = []

        def page():
            pages[:] = [p for p in json.load(urllib.request.urlopen(f'http://{where}/json')) if p['type'] == 'page']
            return pages

        wait_until(page, 60, 'a page of chromium')
        self.ws = websocket.create_connection(pages[0]['webSocketDebuggerUrl'], timeout=300)
        self.n, self.errors, self.requests, self.asked = 0, [], [], []
        for domain in ('Page', 'Runtime', 'Log', 'Network'):
            self.call(f'{domain}.enable')

    def call(self, method, **params):
        self.n += 1
        number = self.n
        self.ws.send(json.dumps({'id': number, 'method': method, 'params': params}))
        while True:
            m = json.loads(self.ws.recv())
            if m.get('id') == number:
                assert 'error' not in m, f'{method}: {m["error"]}'
                return m['result']
            self.note(m)

    def post(self, method, **params):
        """Without waiting for what comes of it."""
        self.n += 1
        self.ws.send(json.dumps({'id': self.n, 'method': method, 'params': params}))

    def login(self, user, password):
        """What a person answers when the browser itself asks for a password."""
        self.secret = {'response': 'ProvideCredentials', 'username': user, 'password': password}
        self.call('Fetch.enable', handleAuthRequests=True)

    def note(self, m):
        p = m.get('params', {})
        if m.get('method') == 'Fetch.requestPaused':
            self.post('Fetch.continueRequest', requestId=p['requestId'])
        if m.get('method') == 'Fetch.authRequired':
            self.asked.append(p['authChallenge'].get('realm'))
            self.post('Fetch.continueWithAuth', requestId=p['requestId'], authChallengeResponse=self.secret)
        if m.get('method') == 'Runtime.exceptionThrown':
            self.errors.append(json.dumps(p['exceptionDetails'])[:400])
        if m.get('method') == 'Runtime.consoleAPICalled' and p['type'] in ('error', 'warning'):
            self.errors.append(json.dumps(p['args'])[:400])
        if m.get('method') == 'Network.requestWillBeSent':
            self.requests.append(p['request']['url'])
        if m.get('method') == 'Log.entryAdded' and p['entry']['level'] == 'error':
            self.errors.append(p['entry']['text'] + ' ' + p['entry'].get('url', ''))

    def run(self, code):
        """The value of an expression; promises are waited for."""
        r = self.call('Runtime.evaluate', expression=code, awaitPromise=True, returnByValue=True)
        assert 'exceptionDetails' not in r, f'{code}: {json.dumps(r["exceptionDetails"])[:500]}'
        return r['result'].get('value')

    def open(self, url):
        """Why it could not be opened; None: it was."""
        return self.call('Page.navigate', url=url).get('errorText')

    def reload(self):
        """Anew; the page of before is gone when this returns."""
        self.run('window.isOfBefore = true')
        self.call('Page.reload')
        self.wait('!window.isOfBefore && document.body', 'the page anew')

    def wait(self, code, what, seconds=60):
        def holds():
            try:
                return self.run(f'(() => {{ try {{ return !!({code}) }} catch {{ return false }} }})()')
            except AssertionError as e:
                if not re.search('navigated|context', str(e)):
                    raise
                return False  # between two pages there is nobody to ask

        try:
            wait_until(holds, seconds, what)
        except AssertionError as e:
            raise AssertionError(f'{e}; errors {self.errors}; the page: {self.run("document.body.innerText")[:1500]}') from None

    def size(self, width, height, mobile=False):
        self.call('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def scheme(self, dark):
        self.call('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}])

    def shot(self, path):
        with open(path, 'wb') as f:
            f.write(base64.b64decode(self.call('Page.captureScreenshot', format='png')['data']))

    def click(self, selector):
        """With the mouse, where the element is."""
        x, y = self.run(f'(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: "center"}}); '
                        'const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2] })()')  # fmt: skip
        for kind in ('mousePressed', 'mouseReleased'):
            self.call('Input.dispatchMouseEvent', type=kind, x=x, y=y, button='left', clickCount=1)

    def type(self, selector, text):
        self.run(f'document.querySelector({json.dumps(selector)}).focus()')
        self.call('Input.insertText', text=text)

    def key(self, key):
        code = {'Tab': 9, 'Enter': 13, ' ': 32}.get(key, 0)
        text = '\r' if key == 'Enter' else key if len(key) == 1 else ''
        for kind in ('keyDown', 'keyUp'):
            self.call('Input.dispatchKeyEvent', type=kind, key=key, code=key, windowsVirtualKeyCode=code, text=text if kind == 'keyDown' else '')
